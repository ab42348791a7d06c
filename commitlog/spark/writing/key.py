"""What makes a repeated write the same write: a key that people choose, or that of a streaming query's batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from commitlog.client.tables.write_keys import parse_key, writer_to_table
from commitlog.errors import ConfigurationError

QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"
"""The local properties by which Spark tells a streaming task, or `foreachBatch`, its query and the query's run."""


@dataclass(frozen=True, slots=True)
class Key:
    """What makes a repeated write the same write: at most one proposal with it is ever committed.

    epoch: of the writer, when it was opened; once it is opened again, what carries a lower one is refused.
    run_id: of a streaming query's run that has no epoch yet, and is given one when it first commits.
    """

    writer_id: str
    writer_seq: int
    epoch: int | None = None
    run_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> Key:
        """A key that people choose, such as ``nightly-load:20240131`` or ``nightly-load:2024-01-31``.

        Raises:
            InvalidRequestError: it is no text, or none that can be sent.
        """
        return cls(*parse_key(text))

    @classmethod
    def given(cls, key: Any) -> Key | None:
        """A key as calls take one: a text that people choose, a key that was made, or None for no key.

        Raises:
            InvalidRequestError: it is none of these.
        """
        return key if key is None or isinstance(key, cls) else cls.parse(key)

    def of_table(self, table: str) -> Key:
        """The key of a write to one table: a name that people choose for a load may be that of each table's part of it."""
        return replace(self, writer_id=writer_to_table(self.writer_id, table))

    @property
    def options(self) -> dict[str, Any]:
        """What it stands for, as options of a transaction."""
        return {"writer_id": self.writer_id, "writer_seq": self.writer_seq, "writer_epoch": self.epoch}

    @classmethod
    def of_stream(cls, query_id: str, table_id: int | None, batch_id: int) -> Key:
        """The key of one batch of a streaming query.

        The table is in it, because one query may commit to several apart; None when a batch is one commit to all.
        """
        return cls(f"spark:{query_id}" if table_id is None else f"spark:{query_id}:{table_id}", batch_id)

    @classmethod
    def of_batch(cls, df: DataFrame, batch_id: int, table_id: int | None = None) -> Key:
        """The key of the batch that ``foreachBatch`` gives: of the whole, whichever tables it is written to, or of what comes
        into one table.

        Raises:
            ConfigurationError: the thread is none of a streaming query, or the session is one of Spark Connect.
        """
        context = getattr(df.sparkSession, "sparkContext", None)
        query_id = None if context is None else context.getLocalProperty(QUERY_ID)
        if context is None or query_id is None:
            raise ConfigurationError(
                "only a batch of a streaming query has a key of its own, which threads of the query alone know: give what "
                "those of a pool are to do to pyspark.inheritable_thread_target(spark); rows of no stream are appended under a "
                "key that you choose, such as key='nightly-load:20240131'"
            )
        return replace(cls.of_stream(query_id, table_id, batch_id), run_id=_run_of(df.sparkSession, query_id))


def _run_of(session: SparkSession, query_id: str) -> str | None:
    """The run of a query, as Spark knows it: the batch's own code may have given its jobs another group than the run's."""
    jvm: Any = session._jvm
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    query = running.get(jvm.java.util.UUID.fromString(query_id))
    return session.sparkContext.getLocalProperty(RUN_ID) if query is None else str(query.runId())
