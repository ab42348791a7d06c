"""Random values of every record of a log, for tests of its bytes and of its JSON."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pyroaring import FrozenBitMap64

from commitlog.domain import model as m
from commitlog.log import codec

BIGINTS = st.integers(m.BIGINT_MIN, m.BIGINT_MAX)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.one_of(st.none(), st.booleans(), BIGINTS, FLOATS, TEXTS)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
ROWS = st.dictionaries(TEXTS, VALUES, max_size=4)
IDS = st.binary(min_size=16, max_size=16)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def tuples(values: st.SearchStrategy[Any], size_max: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=size_max).map(tuple)


POSITIONS = st.one_of(
    st.sets(st.integers(0, m.BIGINT_MAX), max_size=6).map(FrozenBitMap64),
    st.sampled_from([(3, 3), (-1,), (5, 1, 5)]),
)
STATISTICS = st.builds(
    m.ColumnStatistics,
    column=TEXTS,
    min=SCALARS,
    max=SCALARS,
    null_count=optional(BIGINTS),
    value_count=optional(BIGINTS),
    contains_nan=optional(st.booleans()),
    size_bytes=optional(BIGINTS),
)
MAPPED = st.recursive(
    st.builds(m.MappedColumn, TEXTS, TEXTS), lambda inner: st.builds(m.MappedColumn, TEXTS, TEXTS, tuples(inner))
)


def files(row_ids: st.SearchStrategy[Any]) -> st.SearchStrategy[m.DataFile]:
    return st.builds(
        m.DataFile,
        path=TEXTS,
        record_count=BIGINTS,
        file_size_bytes=BIGINTS,
        path_is_relative=st.booleans(),
        footer_size=optional(BIGINTS),
        statistics=st.just(()) | st.binary(min_size=1, max_size=20),
        partition_values=optional(tuples(SCALARS)),
        name_mapping=optional(tuples(MAPPED)),
        row_ids=row_ids,
    )


COLUMNS = st.builds(m.ColumnSpec, TEXTS, TEXTS, st.booleans(), optional(TEXTS))
PARTITION_BY = tuples(st.builds(m.PartitionSpec, TEXTS, TEXTS))
FOREIGN_KEYS = st.builds(m.ForeignKeySpec, tuples(TEXTS), TEXTS, TEXTS, tuples(TEXTS))
ORIGINS = optional(st.builds(m.RowOrigin, TEXTS, BIGINTS, BIGINTS, BIGINTS))
KNOWN_NODES = st.builds(m.KnownNode, TEXTS, BIGINTS, BIGINTS)
REPLICATED = optional(st.builds(m.Replicated, TEXTS, BIGINTS, tuples(KNOWN_NODES)))
ALTERATIONS = st.one_of(
    st.builds(m.Alteration, st.just(m.AlterOp.ADD_COLUMN), column=COLUMNS),
    st.builds(m.Alteration, st.just(m.AlterOp.DROP_COLUMN), name=TEXTS),
    st.builds(m.Alteration, st.just(m.AlterOp.RENAME_COLUMN), name=TEXTS, new_name=TEXTS),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_TYPE), name=TEXTS, type=TEXTS),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_NULLABLE), name=TEXTS, nullable=st.booleans()),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_DEFAULT), name=TEXTS, default=optional(TEXTS)),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_PARTITION_BY), partition_by=PARTITION_BY),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_COMMENT), name=optional(TEXTS), comment=optional(TEXTS)),
    st.builds(m.Alteration, st.just(m.AlterOp.SET_PROPERTY), key=TEXTS, value=optional(TEXTS)),
)
FILES, FLUSHED = tuples(files(st.none())), tuples(files(tuples(BIGINTS)))
CHANGES: dict[type, st.SearchStrategy[Any]] = {
    m.CreateSchema: st.builds(m.CreateSchema, TEXTS, st.booleans()),
    m.DropSchema: st.builds(m.DropSchema, TEXTS, st.booleans(), st.booleans()),
    m.CreateTable: st.builds(
        m.CreateTable,
        TEXTS,
        TEXTS,
        columns=tuples(COLUMNS),
        primary_key=tuples(TEXTS),
        unique=tuples(tuples(TEXTS)),
        foreign_keys=tuples(FOREIGN_KEYS),
        partition_by=PARTITION_BY,
        exclusion_constraints=tuples(TEXTS),
        properties=st.dictionaries(TEXTS, TEXTS, max_size=3),
        if_not_exists=st.booleans(),
    ),
    m.DropTable: st.builds(m.DropTable, TEXTS, TEXTS, st.booleans()),
    m.RenameTable: st.builds(m.RenameTable, TEXTS, TEXTS, TEXTS),
    m.AlterTable: st.builds(m.AlterTable, TEXTS, TEXTS, tuples(ALTERATIONS)),
    m.CreateView: st.builds(m.CreateView, TEXTS, TEXTS, TEXTS, TEXTS, st.booleans()),
    m.ReplaceView: st.builds(m.ReplaceView, TEXTS, TEXTS, TEXTS, TEXTS),
    m.DropView: st.builds(m.DropView, TEXTS, TEXTS, st.booleans()),
    m.Append: st.builds(m.Append, TEXTS, TEXTS, FILES),
    m.Delete: st.builds(
        m.Delete,
        TEXTS,
        TEXTS,
        positions=tuples(st.builds(m.PositionDelete, BIGINTS, POSITIONS)),
        delete_files=tuples(
            st.builds(m.DeleteFile, BIGINTS, TEXTS, POSITIONS, BIGINTS, st.booleans(), optional(BIGINTS))
        ),
        whole_files=tuples(BIGINTS),
    ),
    m.Compact: st.builds(m.Compact, TEXTS, TEXTS, tuples(BIGINTS), FILES),
    m.InsertRow: st.builds(m.InsertRow, TEXTS, TEXTS, ROWS, optional(BIGINTS), ORIGINS),
    m.UpdateRow: st.builds(m.UpdateRow, TEXTS, TEXTS, ROWS, ROWS, optional(BIGINTS), ORIGINS),
    m.DeleteRow: st.builds(m.DeleteRow, TEXTS, TEXTS, ROWS, optional(BIGINTS), ORIGINS),
    m.Flush: st.builds(m.Flush, TEXTS, TEXTS, FLUSHED),
    m.ExpireSnapshots: st.builds(m.ExpireSnapshots, BIGINTS),
    m.Configure: st.builds(m.Configure, st.dictionaries(TEXTS, SCALARS, max_size=4)),
}
ONE_LITERAL = frozenset({m.FilterOp.EQ, m.FilterOp.LT, m.FilterOp.LE, m.FilterOp.GT, m.FilterOp.GE})
PREDICATES = st.one_of(
    st.builds(m.Predicate, TEXTS, st.sampled_from(sorted(ONE_LITERAL)), SCALARS),
    st.builds(m.Predicate, TEXTS, st.just(m.FilterOp.IN), tuples(SCALARS)),
    st.builds(m.Predicate, TEXTS, st.just(m.FilterOp.BETWEEN), st.tuples(SCALARS, SCALARS)),
    st.builds(m.Predicate, TEXTS, st.sampled_from([m.FilterOp.IS_NULL, m.FilterOp.IS_NOT_NULL])),
)
READS = st.one_of(
    st.builds(m.TableRead, TEXTS, TEXTS, tuples(PREDICATES), optional(tuples(BIGINTS))),
    st.builds(m.NameRead, TEXTS, optional(TEXTS)),
    st.builds(m.RowsRead, TEXTS, TEXTS, tuples(ROWS)),
)


def proposals(changes: st.SearchStrategy[Any]) -> st.SearchStrategy[m.Proposal]:
    return st.builds(
        m.Proposal,
        proposal_id=IDS,
        writer_id=TEXTS,
        base_snapshot_id=BIGINTS,
        changes=changes,
        writer_epoch=optional(BIGINTS),
        writer_seq=BIGINTS,
        open_writer=st.booleans(),
        decide_before_ms=optional(BIGINTS),
        isolation=st.sampled_from(m.Isolation),
        reads=tuples(READS),
        author=optional(TEXTS),
        message=optional(TEXTS),
        extra=optional(TEXTS),
        created_at_ms=BIGINTS,
        replicated=REPLICATED,
    )


OBJECTS = st.builds(m.ConflictObject, *[optional(each) for each in (TEXTS, TEXTS, BIGINTS, BIGINTS, TEXTS)])
CONFLICTS = st.builds(
    m.Conflict,
    kind=st.sampled_from(m.ConflictKind),
    proposed_change=optional(INTS),
    proposed_read=optional(INTS),
    object=OBJECTS,
    committed_snapshot_id=BIGINTS,
    committed_proposal_id=optional(IDS),
    committed_writer_id=optional(TEXTS),
    detail=TEXTS,
)
RESOLUTIONS = st.builds(
    m.Resolution,
    change=INTS,
    kind=st.sampled_from(m.ConflictKind),
    action=st.sampled_from(m.ResolutionAction),
    policy=TEXTS,
    object=OBJECTS,
    committed_snapshot_id=BIGINTS,
    committed_proposal_id=optional(IDS),
    committed_writer_id=optional(TEXTS),
    committed_row=optional(ROWS),
    proposed_row=optional(ROWS),
    row=optional(ROWS),
    ended_row_id=optional(BIGINTS),
    row_id=optional(BIGINTS),
)
ASSIGNED = st.builds(
    m.Assigned,
    *[tuples(BIGINTS)] * 4,
    column_ids=tuples(tuples(BIGINTS)),
    mapping_ids=tuples(BIGINTS),
    data_file_ids=tuples(BIGINTS),
    delete_file_ids=tuples(BIGINTS),
    row_id_starts=tuples(optional(BIGINTS)),
    schema_version=BIGINTS,
    writer_epoch=optional(BIGINTS),
)
POSITION = st.builds(m.Position, INTS, BIGINTS)
REASONS = optional(st.sampled_from([reason for reason in m.Reason if reason is not m.Reason.MALFORMED]))
OUTCOMES = st.builds(
    m.Outcome,
    seq=BIGINTS,
    epoch=BIGINTS,
    source=POSITION,
    decided_at_ms=BIGINTS,
    verdict=st.sampled_from(m.Verdict),
    head_snapshot_id=BIGINTS,
    proposal_id=optional(IDS),
    writer_id=optional(TEXTS),
    rules_version=INTS,
    snapshot_id=optional(BIGINTS),
    snapshot_time_us=optional(BIGINTS),
    reason=REASONS,
    detail=optional(TEXTS),
    invalid_code=optional(TEXTS),
    conflicts=tuples(CONFLICTS),
    conflict_count=INTS,
    resolutions=tuples(RESOLUTIONS),
    assigned=ASSIGNED,
    effects=tuples(st.builds(m.Effect, optional(BIGINTS), st.booleans(), optional(BIGINTS), optional(BIGINTS))),
    next_catalog_id=BIGINTS,
    next_file_id=BIGINTS,
    original_seq=optional(BIGINTS),
    same_content=optional(st.booleans()),
    content_hash=optional(BIGINTS),
    proposal=optional(proposals(tuples(CHANGES[m.DropTable]))),
)
RECEIPTS = st.builds(
    m.Receipt,
    seq=BIGINTS,
    source=st.builds(m.Position, st.just(3), BIGINTS),
    proposal_id=optional(IDS),
    verdict=st.sampled_from(m.Verdict),
    snapshot_id=optional(BIGINTS),
    head_snapshot_id=BIGINTS,
    reason=REASONS,
    detail=optional(TEXTS),
    invalid_code=optional(TEXTS),
    assigned=ASSIGNED,
    decided_at_ms=BIGINTS,
    original_seq=optional(BIGINTS),
    same_content=optional(st.booleans()),
    answered_verdict=optional(st.sampled_from(m.Verdict)),
    answered_snapshot_id=optional(BIGINTS),
    answered_reason=REASONS,
    answered_detail=optional(TEXTS),
)
LOG_SETTINGS = st.builds(
    m.LogSettings,
    conflict_granularity=st.sampled_from(m.Granularity),
    on_conflict=TEXTS,
    window_snapshots=BIGINTS,
    expire_older_than_ms=optional(BIGINTS),
)
LOG_ID, HASH = b"L" * 16, b"H" * 32
QUICK = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def proposal(*changes: m.Change, **more: Any) -> m.Proposal:
    """A proposal with a version 7 id."""
    return m.Proposal(bytes.fromhex("01934f3e7c0070008000000000000001"), "w1", 4, changes, **more)


def append(file: m.DataFile) -> m.Proposal:
    return proposal(m.Append("main", "t", (file,)))


GOOD = codec.encode_proposal(append(m.DataFile("part.parquet", 1, 2)))
"""A proposal's bytes."""
