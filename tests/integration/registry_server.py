"""A small schema registry for tests: the calls that Confluent's serializers make, answered as its own registry answers them.

It keeps schemas in memory, gives one id to equal texts, checks no compatibility, and knows Avro alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Answer = tuple[int, dict[str, Any]]


class RegistryServer:
    """Its schemas by id, and by subject the ids of its versions."""

    def __init__(self) -> None:
        self.schemas: dict[int, tuple[str, str]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.is_away = False
        self.asked: list[str] = []

    def add(self, subject: str, schema: str, schema_type: str = "AVRO") -> int:
        """Register a schema as the newest version of a subject; gives its id."""
        known = {each: schema_id for schema_id, each in self.schemas.items()}
        schema_id = known.get((schema, schema_type), len(self.schemas) + 1)
        self.schemas[schema_id] = (schema, schema_type)
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        """What a request is answered: the status, and the JSON."""
        self.asked.append(f"{method} {path}")
        if self.is_away:
            return 503, {"error_code": 50301, "message": "away"}
        match [method, *(unquote(part) for part in path.strip("/").split("/"))]:
            case ["GET", "schemas", "ids", schema_id]:
                return self._schema(int(schema_id))
            case ["POST", "subjects", subject, "versions"]:
                schema_id = self.add(subject, body["schema"], body.get("schemaType", "AVRO"))
                return 200, {"id": schema_id}
            case ["GET", "subjects", subject, "versions", "latest"] if subject in self.subjects:
                return 200, self._version(subject, len(self.subjects[subject]))
            case ["POST", "subjects", subject] if subject in self.subjects:
                for version, schema_id in enumerate(self.subjects[subject], 1):
                    if self.schemas[schema_id][0] == body["schema"]:
                        return 200, self._version(subject, version)
                return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 40401, "message": "Subject not found"}

    def _schema(self, schema_id: int) -> Answer:
        if schema_id not in self.schemas:
            return 404, {"error_code": 40403, "message": f"Schema {schema_id} not found"}
        schema, schema_type = self.schemas[schema_id]
        return 200, {"schema": schema, **({} if schema_type == "AVRO" else {"schemaType": schema_type})}

    def _version(self, subject: str, version: int) -> dict[str, Any]:
        schema_id = self.subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": schema_id, "schema": self.schemas[schema_id][0]}


@contextmanager
def serving(registry: RegistryServer) -> Iterator[str]:
    """Have it answer at a free port of this machine; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _answer(self, body: dict[str, Any]) -> None:
            status, answer = registry.answer(self.command, urlsplit(self.path).path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="registry")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
