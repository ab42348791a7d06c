"""Is the log what its own rules make of it, and the catalog what the log says? Spark's tasks share the work.

Every record's place in the chain of hashes is checked in ranges of the results; then the proposals are decided again in
shares that have no table in common (`commitlog.domain.again.verifying`); last, the tables that this gives are counted in the
catalog.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from commitlog.catalog.census import census, count_outcomes
from commitlog.client import CommitLog
from commitlog.client.outcomes.archive import check_there
from commitlog.domain.again.verifying import (
    Entities,
    Finding,
    TableTotals,
    Verifier,
    is_data_only,
    keyed_rows_added,
    thin,
    touched,
)
from commitlog.domain.model import Genesis
from commitlog.domain.model.definitions import counted
from commitlog.log.chain import hash_after_takeover
from commitlog.log.codec import OutcomeRecord, decode_record, decode_statistics, hash_record
from commitlog.spark.connection import catalog_of, connect, wait_for_seq
from commitlog.spark.source.outcomes import raw_records

FINDINGS_MAX = 100
STEPS = 3
APPLIED_TIMEOUT_S = 60.0
_TASKS_MAX = 10_000
_LOOKED_AT = (
    "seq bigint, hash binary, prev_hash binary, log_id binary, raw binary, thin binary, takeovers array<binary>, "
    "names array<string>"
)
_REPORT = "share int, kind string, value binary"


@dataclass
class VerifyReport:
    """What was looked at and what was found; ``ok`` when that is nothing.

    Attributes:
        outcomes: how many records the log has after its genesis; judged: how many proposals were decided again.
        shares: how many tasks decided; head_hash: of the last record, which vouches for all before it.
        findings: outcomes that are not what the rules give, and places where the chain breaks.
        catalog: where the catalog is not what the log says; None when it was not looked at.
    """

    outcomes: int = 0
    judged: int = 0
    shares: int = 0
    head_seq: int = 0
    head_hash: bytes = b""
    verdicts: dict[str, int] = field(default_factory=dict)
    tables: int = 0
    findings: list[Finding] = field(default_factory=list)
    catalog: list[str] | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings and not self.catalog

    def __str__(self) -> str:
        verdicts = ", ".join(f"{count:,} {verdict.lower()}" for verdict, count in sorted(self.verdicts.items()))
        lines = [
            f"{counted(self.outcomes, 'outcome')} ({verdicts}), {self.judged:,} decided again in "
            f"{counted(self.shares, 'share')}, {counted(self.tables, 'table')}",
            f"chain of hashes up to outcome {self.head_seq}: {self.head_hash.hex()[:16]}",
        ]
        lines += [f"WRONG outcome {seq}: {what}" for seq, what in self.findings[:FINDINGS_MAX]]
        if self.catalog is None:
            lines.append("the catalog was not looked at")
        else:
            lines += [f"WRONG catalog: {what}" for what in self.catalog[:FINDINGS_MAX]]
        lines.append(
            "all as it should be" if self.ok else "NOT as it should be: keep the log, and rebuild what is wrong"
        )
        return "\n".join(lines)


def verify(
    spark: SparkSession,
    *,
    log: CommitLog | None = None,
    archive: str | None = None,
    catalog: bool = True,
    on_step: Callable[[str, int, int], None] = lambda doing, done, count: None,
) -> VerifyReport:
    """Decide the whole log again and compare it with itself and with the catalog.

    Args:
        spark: the session; its tasks share the work.
        log: the log; None connects by the settings found.
        archive: where `commitlog archive` has put the log's closed ranges; what it lacks is read from Kafka.
        catalog: whether the catalog is counted too.
        on_step: called before each step with what is done now, how many steps are done, and of how many.

    Raises:
        ConfigurationError: there is no archive.
        LogUnavailableError: no broker has answered.
    """
    if archive is not None:
        check_there(archive)
    to_log = connect() if log is None else log
    looked_at = raw_records(spark, to_log, archive).mapInArrow(_look, _LOOKED_AT).cache()
    try:
        report = VerifyReport()
        on_step("reading the log, and its chain", 0, STEPS)
        genesis = _check_chain(looked_at, report)
        if genesis is not None:
            on_step("deciding again", 1, STEPS)
            totals = _decide_again(looked_at, genesis, report)
            if catalog and not report.findings:
                on_step("comparing the catalog", 2, STEPS)
                report.catalog = list(_compare_catalog(to_log, report, totals))
        return report
    finally:
        looked_at.unpersist()


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode records: what the chain needs of each, and what the shares do."""
    for batch in batches:
        rows: list[dict[str, Any]] = []
        for given in batch.to_pylist():
            raw = given["raw"]
            record = decode_record(raw)
            row: dict[str, Any] = {"seq": 0, "hash": hash_record(raw), "raw": raw, "names": []}
            row["takeovers"] = given["takeovers"]
            if isinstance(record, OutcomeRecord):
                outcome = record.outcome
                row |= {"seq": outcome.seq, "prev_hash": record.prev_hash, "log_id": record.log_id}
                if outcome.proposal is not None:
                    row["names"] = list(touched(outcome.proposal))
                if is_data_only(outcome):
                    row["thin"] = pickle.dumps((thin(outcome), keyed_rows_added(outcome)))
            else:
                row["log_id"] = record.log_id
            rows.append(row)
        yield pa.RecordBatch.from_pylist(rows, _LOOKED_AT_SCHEMA)


_LOOKED_AT_SCHEMA = pa.schema(
    [("seq", pa.int64()), *((name, pa.binary()) for name in ("hash", "prev_hash", "log_id", "raw", "thin")),
     ("takeovers", pa.list_(pa.binary())), ("names", pa.list_(pa.string()))]
)  # fmt: skip


class _Link(NamedTuple):
    seq: int
    hash: bytes
    prev_hash: bytes | None
    log_id: bytes
    takeovers: Sequence[bytes]

    def follows(self, last: _Link) -> bool:
        """Whether the hash that it was written after is the last one's, as the takeovers between made it."""
        return self.prev_hash == reduce(hash_after_takeover, self.takeovers, last.hash)


def _check_chain(looked_at: DataFrame, report: VerifyReport) -> Genesis | None:
    """Check that every record follows the one before it; what does not count was left out by its reader."""
    last: _Link | None = None
    genesis: Genesis | None = None
    for row in looked_at.select("seq", "hash", "prev_hash", "log_id", "takeovers").orderBy("seq").toLocalIterator():
        link = _Link(
            row.seq,
            bytes(row.hash),
            None if row.prev_hash is None else bytes(row.prev_hash),
            bytes(row.log_id),
            [bytes(takeover) for takeover in row.takeovers or ()],
        )
        expected = 0 if last is None else last.seq + 1
        if link.seq != expected:
            report.findings.append(Finding(expected, f"is missing: {link.seq} is the next one"))
        elif last is not None and link.log_id != last.log_id:
            report.findings.append(Finding(link.seq, "belongs to another log"))
        elif last is not None and not link.follows(last):
            report.findings.append(Finding(link.seq, f"was written after another outcome {last.seq} than the one here"))
        last = link
    if last is not None:
        report.outcomes, report.head_seq, report.head_hash = last.seq, last.seq, last.hash
        raw = looked_at.where("seq = 0").select("raw").first()
        found = None if raw is None else decode_record(bytes(raw.raw))
        genesis = found if isinstance(found, Genesis) else None
    if genesis is None:
        report.findings.append(Finding(0, "is no genesis: the log does not begin here"))
    return None if report.findings else genesis


def _decide_again(looked_at: DataFrame, genesis: Genesis, report: VerifyReport) -> list[TableTotals]:
    share_of, shares = _shares(looked_at)
    report.shares = shares

    def shared_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every record for every share: whole, or thin where another share judges it."""
        for batch in batches:
            rows = batch.to_pylist()
            out: list[dict[str, Any]] = []
            for row in rows:
                owner = share_of.get(row["names"][0], 0) if row["names"] else 0
                for share in range(shares):
                    whole = row["thin"] is None or share == owner
                    value = row["raw"] if whole else row["thin"]
                    out.append(
                        {"share": share, "seq": row["seq"], "judge": share == owner, "whole": whole, "value": value}
                    )
            yield pa.RecordBatch.from_pylist(out, _SHARED_SCHEMA)

    def decided(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        yield pa.RecordBatch.from_pylist(list(_judge(rows, genesis)), _REPORT_SCHEMA)

    columns = "share int, seq bigint, judge boolean, whole boolean, value binary"
    shared = looked_at.where("seq > 0").mapInArrow(shared_out, columns)
    ordered = shared.repartition(shares, "share").sortWithinPartitions("share", "seq")
    verdicts: Counter[str] = Counter()
    totals: dict[int, TableTotals] = {}
    for row in ordered.mapInArrow(decided, _REPORT).collect():
        value = pickle.loads(bytes(row.value))
        if row.kind == "finding":
            report.findings.append(value)
        elif row.kind == "judged":
            report.judged += value
        elif row.kind == "verdicts":
            verdicts.update(value)
        else:
            _merge_totals(totals, value)
    report.verdicts = dict(verdicts)
    report.findings.sort()
    report.tables = len(totals)
    return sorted(totals.values())


_SHARED_SCHEMA = pa.schema(
    [("share", pa.int32()), ("seq", pa.int64()), ("judge", pa.bool_()), ("whole", pa.bool_()), ("value", pa.binary())]
)
_REPORT_SCHEMA = pa.schema([("share", pa.int32()), ("kind", pa.string()), ("value", pa.binary())])


def _shares(looked_at: DataFrame) -> tuple[dict[str, int], int]:
    """Which share judges a name, and how many shares there are: groups of names, dealt out to as many as tasks run."""
    entities = Entities()
    for row in looked_at.select("names").where("size(names) > 0").distinct().toLocalIterator():
        entities.add(row.names)
    groups = entities.groups()
    # As many tasks as Spark itself takes for rows of its own, which Spark Connect does not tell otherwise.
    tasks = looked_at.sparkSession.range(_TASKS_MAX).select(sf.spark_partition_id()).distinct().count()
    shares = max(1, min(len(groups), tasks))
    return {name: number % shares for number, names in enumerate(groups) for name in names}, shares


def _judge(rows: Iterator[dict[str, Any]], genesis: Genesis) -> Iterator[dict[str, Any]]:
    """Decide one share after another; rows come by share and seq."""
    share, last, verifier, verdicts = -1, 0, None, Counter[str]()

    def report(kind: str, value: object) -> dict[str, Any]:
        return {"share": share, "kind": kind, "value": pickle.dumps(value)}

    def end(done: Verifier | None) -> Iterator[dict[str, Any]]:
        if done is not None:
            yield report("judged", done.judged)
            yield report("verdicts", dict(verdicts))
            for table in done.totals():
                yield report("table", table)

    broken = False
    for row in rows:
        if row["share"] != share:
            yield from end(verifier)
            share, last, broken = row["share"], 0, False
            verifier, verdicts = Verifier(genesis, decode_statistics=decode_statistics), Counter[str]()
        assert verifier is not None
        if broken or row["seq"] == last:
            continue
        last = row["seq"]
        finding = _take(verifier, row, verdicts)
        if finding is not None:
            broken = "cannot be applied" in finding.what
            yield report("finding", finding)
    yield from end(verifier)


def _take(verifier: Verifier, row: dict[str, Any], verdicts: Counter[str]) -> Finding | None:
    if not row["whole"]:
        outcome, added = pickle.loads(row["value"])
        return verifier.apply(outcome, keyed_rows_added=added)
    record = decode_record(row["value"])
    assert isinstance(record, OutcomeRecord)
    if not row["judge"]:
        return verifier.apply(thin(record.outcome), keyed_rows_added=keyed_rows_added(record.outcome))
    verdicts[record.outcome.verdict.value] += 1
    return verifier.check(record.outcome)


def _merge_totals(totals: dict[int, TableTotals], table: TableTotals) -> None:
    """Of the shares that all know a table only the one that judged it has seen its contents."""
    known = totals.get(table.table_id)
    if known is None or (table.files, table.keyed_rows) > (known.files, known.keyed_rows):
        totals[table.table_id] = table


def _compare_catalog(log: CommitLog, report: VerifyReport, totals: Sequence[TableTotals]) -> Iterator[str]:
    catalog = catalog_of(log)
    if not wait_for_seq(log, report.head_seq, APPLIED_TIMEOUT_S):
        applied = catalog.applied()
        yield f"is at outcome {None if applied is None else applied.seq}, the log at {report.head_seq}: is a projector running?"
        return
    held = count_outcomes(catalog, report.head_seq)
    if held != report.verdicts:
        yield f"holds the outcomes {held}, the log {report.verdicts}"
    head = report.verdicts.get("COMMITTED", 0)
    tables = census(catalog, head)
    for table in totals:
        found = tables.pop(table.table_id, None)
        if found is None:
            yield f"lacks table {table.name} (id {table.table_id})"
            continue
        if (found.files, found.file_ids) != (table.files, table.file_ids):
            yield (
                f"lists {found.files} files of table {table.name} whose ids sum to {found.file_ids}, the log {table.files} "
                f"and {table.file_ids}"
            )
        keyed = table.keyed_rows > 0
        rows, expected = found.rows_in_files, table.rows
        if keyed:
            rows, expected = found.rows_in_files + found.rows_elsewhere, table.keyed_rows
        if rows != expected:
            yield f"counts {rows} rows of table {table.name}, the log {expected}"
    for table_id in tables:
        yield f"has a table with id {table_id} that the log does not have"
