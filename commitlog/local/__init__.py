"""A real Kafka broker and a real PostgreSQL on this machine, without Docker: for `commitlog up`, the demo and tests."""

from commitlog.local.postgres import EmbeddedPostgres

from commitlog.local.broker import EmbeddedBroker

__all__ = ["EmbeddedBroker", "EmbeddedPostgres"]
