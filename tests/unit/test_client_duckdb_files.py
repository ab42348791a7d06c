"""DuckDB reads a lake's files where they are, in S3 too."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.client.reading import duckdb_client
from commitlog.client.reading.duckdb_files import reach_files, secret_statement
from commitlog.config import s3_endpoint
from commitlog.errors import ConfigurationError

KEY = "AKIDTEST"


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2, 3]}), sink)
    return sink.getvalue()


class Bucket(BaseHTTPRequestHandler):
    """One file of a bucket, for whoever signs with the key."""

    protocol_version = "HTTP/1.1"
    content = parquet()

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        start, end = (int(each) for each in self.headers["Range"].removeprefix("bytes=").split("-"))
        self._answer(self.content[start : end + 1])

    def _answer(self, body: bytes) -> None:
        is_known = self.path == "/bucket/f.parquet" and f"Credential={KEY}/" in self.headers.get("Authorization", "")
        self.send_response((206 if body else 200) if is_known else 403)
        self.send_header("Content-Length", str((len(body) or len(self.content)) if is_known else 0))
        self.send_header("ETag", '"one"')
        self.send_header("Last-Modified", "Sun, 22 Nov 2026 17:00:00 GMT")
        self.end_headers()
        if is_known:
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def environment(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": endpoint,
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)


def attached(folder: Path, data_path: str, loaded: list[str]) -> Any:
    connection = duckdb_client.open_duckdb("ducklake")

    def load(extension: str) -> None:
        loaded.append(extension)
        duckdb_client._load(connection, duckdb_client.extension_file(extension))

    reach_files(connection, data_path, load)
    connection.execute(f"ATTACH 'ducklake:{folder}/catalog' AS lake (DATA_PATH '{data_path}')")
    return connection


@pytest.mark.usefixtures("environment")
def test_lake_when_its_files_are_in_s3_then_duckdb_reads_them_with_the_credentials_found(tmp_path: Path) -> None:
    loaded: list[str] = []
    with attached(tmp_path, "s3://bucket/lake", loaded) as connection:
        assert connection.sql("SELECT sum(id) FROM 's3://bucket/f.parquet'").fetchall() == [(6,)]
    assert loaded == ["httpfs", "aws"]


@pytest.mark.usefixtures("environment")
def test_lake_when_it_is_in_s3_and_no_credentials_are_found_then_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    # Nobody asks whether this machine has a role.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"files are at s3://bucket/lake, and .* give AWS_ACCESS_KEY_ID"):
        attached(tmp_path, "s3://bucket/lake", [])


def test_lake_when_its_files_are_in_a_folder_then_nothing_more_is_loaded(tmp_path: Path) -> None:
    loaded: list[str] = []
    with attached(tmp_path, f"{tmp_path}/files", loaded) as connection:
        assert connection.sql("FROM duckdb_secrets()").fetchall() == []
    assert loaded == []


def test_extension_when_it_is_not_installed_then_says_what_brings_it() -> None:
    with pytest.raises(
        ConfigurationError, match=r"extension spatial is not installed: pip install 'commitlog\[duckdb\]'"
    ):
        duckdb_client.extension_file("spatial")


def test_secret_when_an_endpoint_is_given_then_buckets_are_its_folders() -> None:
    assert secret_statement(None) == "CREATE SECRET commitlog_s3 (TYPE s3, PROVIDER credential_chain)"
    assert "ENDPOINT 'minio:9000', URL_STYLE 'path', USE_SSL true" in secret_statement("https://minio:9000/")
    assert "ENDPOINT 'a''b'" in secret_statement("http://a'b")
    assert s3_endpoint({}) is None
    assert s3_endpoint({"AWS_ENDPOINT_URL": "http://minio:9000"}) == "http://minio:9000"
