"""A schema registry, as a relay asks it. An id means the same schema for ever, so each is asked for once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

import httpx2
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from commitlog.config import Settings
from commitlog.errors import ConfigurationError, MalformedRecordError, RegistryUnavailableError

T = TypeVar("T")
_NOT_FOUND = range(40401, 40500)
"""A registry's own codes. A 404 without one is another server's, or of another path: it says nothing of a schema."""
_TOO_MANY = 429
_SERVERS_OWN = 500


class Registry:
    """Asks the registry of the settings. Thread-safe.

    Raises:
        ConfigurationError: the settings name none.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.registry_url is None:
            raise ConfigurationError("a relay needs a schema registry: set registry_url, as in http://localhost:8081")
        self._url = settings.registry_url
        self._client = SchemaRegistryClient({"url": self._url, "max.retries": 0})

    def schema_of(self, schema_id: int) -> str:
        """The text of the schema that an id means.

        Raises:
            MalformedRecordError: none, or one that is not Avro's.
            RegistryUnavailableError: the registry does not answer.
            ConfigurationError: it refuses to, or is none.
        """

        def ask() -> Schema | None:
            try:
                return self._client.get_schema(schema_id)
            except SchemaRegistryError as error:
                if error.error_code in _NOT_FOUND:
                    return None
                raise

        schema = self._answer(ask)
        if schema is None:
            raise MalformedRecordError(f"the registry knows no schema with the id {schema_id}")
        if schema.schema_type != "AVRO":
            raise MalformedRecordError(f"the schema with the id {schema_id} is {schema.schema_type}, not Avro's")
        return schema.schema_str or ""

    def id_of(self, topic: str, schema: str) -> int:
        """The id of the schema of a topic's values, which the registry is told where it does not know it.

        Raises:
            RegistryUnavailableError: the registry does not answer.
            ConfigurationError: it refuses to, or is none.
        """
        return self._answer(lambda: int(self._client.register_schema(f"{topic}-value", Schema(schema, "AVRO"))))

    def close(self) -> None:
        """Let go of its connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except httpx2.HTTPError as error:
            raise RegistryUnavailableError(self._url, detail=str(error)) from None
        except SchemaRegistryError as error:
            if error.http_status_code >= _SERVERS_OWN or error.http_status_code == _TOO_MANY:
                raise RegistryUnavailableError(self._url, detail=str(error)) from None
            raise ConfigurationError(f"the registry of registry_url refuses: {error}") from None
        except (ValueError, TypeError, AttributeError, KeyError):
            # The client takes any answer for a registry's.
            raise ConfigurationError("what answers at registry_url is no schema registry") from None
