"""A real Kafka broker and a real PostgreSQL on this machine, without Docker: for `commitlog up`, the demo and tests."""

from commitlog.local.broker import EmbeddedBroker
from commitlog.local.postgres import EmbeddedPostgres

__all__ = ["EmbeddedBroker", "EmbeddedPostgres"]
