"""Generated from schemas/proposal.avsc by `make records`: their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from librt.strings import BytesWriter

from commitlog.domain.model.checks import check_id_version
from commitlog.domain.model.records.proposal import (
    Alteration,
    AlterOp,
    AlterTable,
    Append,
    Change,
    ColumnSpec,
    Compact,
    Configure,
    CreateSchema,
    CreateTable,
    CreateView,
    DataFile,
    Delete,
    DeleteFile,
    DeleteRow,
    DisplacedRow,
    DropSchema,
    DropTable,
    DropView,
    ExpireSnapshots,
    FilterOp,
    Flush,
    ForeignKeySpec,
    InsertRow,
    Isolation,
    KnownNode,
    NameRead,
    PartitionSpec,
    PositionDelete,
    Predicate,
    Proposal,
    Read,
    RenameTable,
    ReplaceView,
    Replicated,
    RowOrigin,
    RowsRead,
    TableRead,
    UpdateRow,
)
from commitlog.log.codec.avro import (
    NULL,
    SOME,
    Cursor,
    array,
    fixed,
    flag,
    long,
    longs,
    mapping,
    maybe_flag,
    maybe_long,
    maybe_text,
    scalar,
    symbols,
    text,
    texts,
)
from commitlog.log.codec.statistics import read_statistics, write_statistics
from commitlog.log.codec.values import (
    check_case,
    check_predicate,
    files_with_row_ids,
    files_without_row_ids,
    read_literal,
    read_name_mapping,
    read_positions,
    read_row,
    read_scalar,
    write_literal,
    write_name_mapping,
    write_positions,
    write_row,
)

_ISOLATION_MEMBERS: Final = tuple(Isolation)
_ISOLATION: Final = symbols(Isolation)


_FILTER_OP_MEMBERS: Final = tuple(FilterOp)
_FILTER_OP: Final = symbols(FilterOp)


_ALTER_OP_MEMBERS: Final = tuple(AlterOp)
_ALTER_OP: Final = symbols(AlterOp)


_ALTERATION_CASES: Final[Mapping[AlterOp, tuple[frozenset[str], frozenset[str]]]] = {
    AlterOp.ADD_COLUMN: (frozenset({"column"}), frozenset({"column"})),
    AlterOp.DROP_COLUMN: (frozenset({"name"}), frozenset({"name"})),
    AlterOp.RENAME_COLUMN: (frozenset({"name", "new_name"}), frozenset({"name", "new_name"})),
    AlterOp.SET_TYPE: (frozenset({"name", "type"}), frozenset({"name", "type"})),
    AlterOp.SET_NULLABLE: (frozenset({"name", "nullable"}), frozenset({"name", "nullable"})),
    AlterOp.SET_DEFAULT: (frozenset({"name"}), frozenset({"default", "name"})),
    AlterOp.SET_PARTITION_BY: (frozenset(), frozenset({"partition_by"})),
    AlterOp.SET_COMMENT: (frozenset(), frozenset({"comment", "name"})),
    AlterOp.SET_PROPERTY: (frozenset({"key"}), frozenset({"key", "value"})),
}


def write_predicate(out: BytesWriter, it: Predicate) -> None:
    """Writes a Predicate, as `schemas/proposal.avsc` has it."""
    text(out, it.column)
    out.append(_FILTER_OP[it.op])
    write_literal(out, it.value)


def read_predicate(cursor: Cursor) -> Predicate:
    """Reads a Predicate."""
    return check_predicate(
        Predicate(column=cursor.text(), op=cursor.symbol(_FILTER_OP_MEMBERS), value=read_literal(cursor))
    )


def write_table_read(out: BytesWriter, it: TableRead) -> None:
    """Writes a TableRead, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    array(out, write_predicate, it.filter)
    if it.files is None:
        out.append(NULL)
    else:
        out.append(SOME)
        longs(out, it.files)


def read_table_read(cursor: Cursor) -> TableRead:
    """Reads a TableRead."""
    return TableRead(
        schema=cursor.text(),
        table=cursor.text(),
        filter=cursor.array(read_predicate),
        files=cursor.longs() if cursor.is_some() else None,
    )


def write_name_read(out: BytesWriter, it: NameRead) -> None:
    """Writes a NameRead, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    maybe_text(out, it.name)


def read_name_read(cursor: Cursor) -> NameRead:
    """Reads a NameRead."""
    return NameRead(schema=cursor.text(), name=cursor.maybe_text())


def write_rows_read(out: BytesWriter, it: RowsRead) -> None:
    """Writes a RowsRead, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    array(out, write_row, it.keys)


def read_rows_read(cursor: Cursor) -> RowsRead:
    """Reads a RowsRead."""
    return RowsRead(schema=cursor.text(), table=cursor.text(), keys=cursor.array(read_row))


def write_create_schema(out: BytesWriter, it: CreateSchema) -> None:
    """Writes a CreateSchema, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    flag(out, it.if_not_exists)


def read_create_schema(cursor: Cursor) -> CreateSchema:
    """Reads a CreateSchema."""
    return CreateSchema(schema=cursor.text(), if_not_exists=cursor.flag())


def write_drop_schema(out: BytesWriter, it: DropSchema) -> None:
    """Writes a DropSchema, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    flag(out, it.cascade)
    flag(out, it.if_exists)


def read_drop_schema(cursor: Cursor) -> DropSchema:
    """Reads a DropSchema."""
    return DropSchema(schema=cursor.text(), cascade=cursor.flag(), if_exists=cursor.flag())


def write_column_spec(out: BytesWriter, it: ColumnSpec) -> None:
    """Writes a ColumnSpec, as `schemas/proposal.avsc` has it."""
    text(out, it.name)
    text(out, it.type)
    flag(out, it.nullable)
    maybe_text(out, it.default)


def read_column_spec(cursor: Cursor) -> ColumnSpec:
    """Reads a ColumnSpec."""
    return ColumnSpec(name=cursor.text(), type=cursor.text(), nullable=cursor.flag(), default=cursor.maybe_text())


def write_foreign_key_spec(out: BytesWriter, it: ForeignKeySpec) -> None:
    """Writes a ForeignKeySpec, as `schemas/proposal.avsc` has it."""
    texts(out, it.columns)
    text(out, it.ref_schema)
    text(out, it.ref_table)
    texts(out, it.ref_columns)


def read_foreign_key_spec(cursor: Cursor) -> ForeignKeySpec:
    """Reads a ForeignKeySpec."""
    return ForeignKeySpec(
        columns=cursor.texts(), ref_schema=cursor.text(), ref_table=cursor.text(), ref_columns=cursor.texts()
    )


def write_partition_spec(out: BytesWriter, it: PartitionSpec) -> None:
    """Writes a PartitionSpec, as `schemas/proposal.avsc` has it."""
    text(out, it.column)
    text(out, it.transform)


def read_partition_spec(cursor: Cursor) -> PartitionSpec:
    """Reads a PartitionSpec."""
    return PartitionSpec(column=cursor.text(), transform=cursor.text())


def write_create_table(out: BytesWriter, it: CreateTable) -> None:
    """Writes a CreateTable, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    array(out, write_column_spec, it.columns)
    texts(out, it.primary_key)
    array(out, texts, it.unique)
    array(out, write_foreign_key_spec, it.foreign_keys)
    array(out, write_partition_spec, it.partition_by)
    texts(out, it.exclusion_constraints)
    mapping(out, text, it.properties)
    flag(out, it.if_not_exists)


def read_create_table(cursor: Cursor) -> CreateTable:
    """Reads a CreateTable."""
    return CreateTable(
        schema=cursor.text(),
        table=cursor.text(),
        columns=cursor.array(read_column_spec),
        primary_key=cursor.texts(),
        unique=cursor.array(Cursor.texts),
        foreign_keys=cursor.array(read_foreign_key_spec),
        partition_by=cursor.array(read_partition_spec),
        exclusion_constraints=cursor.texts(),
        properties=cursor.mapping(Cursor.text),
        if_not_exists=cursor.flag(),
    )


def write_drop_table(out: BytesWriter, it: DropTable) -> None:
    """Writes a DropTable, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    flag(out, it.if_exists)


def read_drop_table(cursor: Cursor) -> DropTable:
    """Reads a DropTable."""
    return DropTable(schema=cursor.text(), table=cursor.text(), if_exists=cursor.flag())


def write_rename_table(out: BytesWriter, it: RenameTable) -> None:
    """Writes a RenameTable, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    text(out, it.new_table)


def read_rename_table(cursor: Cursor) -> RenameTable:
    """Reads a RenameTable."""
    return RenameTable(schema=cursor.text(), table=cursor.text(), new_table=cursor.text())


def write_alteration(out: BytesWriter, it: Alteration) -> None:
    """Writes an Alteration, as `schemas/proposal.avsc` has it."""
    out.append(_ALTER_OP[it.op])
    if it.column is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_column_spec(out, it.column)
    maybe_text(out, it.name)
    maybe_text(out, it.new_name)
    maybe_text(out, it.type)
    maybe_flag(out, it.nullable)
    maybe_text(out, it.default)
    array(out, write_partition_spec, it.partition_by)
    maybe_text(out, it.comment)
    maybe_text(out, it.key)
    maybe_text(out, it.value)


def read_alteration(cursor: Cursor) -> Alteration:
    """Reads an Alteration."""
    it = Alteration(
        op=cursor.symbol(_ALTER_OP_MEMBERS),
        column=read_column_spec(cursor) if cursor.is_some() else None,
        name=cursor.maybe_text(),
        new_name=cursor.maybe_text(),
        type=cursor.maybe_text(),
        nullable=cursor.maybe_flag(),
        default=cursor.maybe_text(),
        partition_by=cursor.array(read_partition_spec),
        comment=cursor.maybe_text(),
        key=cursor.maybe_text(),
        value=cursor.maybe_text(),
    )
    return check_case(it, it.op, _ALTERATION_CASES)


def write_alter_table(out: BytesWriter, it: AlterTable) -> None:
    """Writes an AlterTable, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    array(out, write_alteration, it.alterations)


def read_alter_table(cursor: Cursor) -> AlterTable:
    """Reads an AlterTable."""
    return AlterTable(schema=cursor.text(), table=cursor.text(), alterations=cursor.array(read_alteration))


def write_create_view(out: BytesWriter, it: CreateView) -> None:
    """Writes a CreateView, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.view)
    text(out, it.sql)
    text(out, it.dialect)
    flag(out, it.if_not_exists)


def read_create_view(cursor: Cursor) -> CreateView:
    """Reads a CreateView."""
    return CreateView(
        schema=cursor.text(), view=cursor.text(), sql=cursor.text(), dialect=cursor.text(), if_not_exists=cursor.flag()
    )


def write_replace_view(out: BytesWriter, it: ReplaceView) -> None:
    """Writes a ReplaceView, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.view)
    text(out, it.sql)
    text(out, it.dialect)


def read_replace_view(cursor: Cursor) -> ReplaceView:
    """Reads a ReplaceView."""
    return ReplaceView(schema=cursor.text(), view=cursor.text(), sql=cursor.text(), dialect=cursor.text())


def write_drop_view(out: BytesWriter, it: DropView) -> None:
    """Writes a DropView, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.view)
    flag(out, it.if_exists)


def read_drop_view(cursor: Cursor) -> DropView:
    """Reads a DropView."""
    return DropView(schema=cursor.text(), view=cursor.text(), if_exists=cursor.flag())


def write_data_file(out: BytesWriter, it: DataFile) -> None:
    """Writes a DataFile, as `schemas/proposal.avsc` has it."""
    text(out, it.path)
    flag(out, it.path_is_relative)
    long(out, it.record_count)
    long(out, it.file_size_bytes)
    maybe_long(out, it.footer_size)
    write_statistics(out, it.statistics)
    if it.partition_values is None:
        out.append(NULL)
    else:
        out.append(SOME)
        array(out, scalar, it.partition_values)
    if it.name_mapping is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_name_mapping(out, it.name_mapping)
    if it.row_ids is None:
        out.append(NULL)
    else:
        out.append(SOME)
        longs(out, it.row_ids)


def read_data_file(cursor: Cursor) -> DataFile:
    """Reads a DataFile."""
    return DataFile(
        path=cursor.text(),
        path_is_relative=cursor.flag(),
        record_count=cursor.long(),
        file_size_bytes=cursor.long(),
        footer_size=cursor.maybe_long(),
        statistics=read_statistics(cursor),
        partition_values=cursor.array(read_scalar) if cursor.is_some() else None,
        name_mapping=read_name_mapping(cursor) if cursor.is_some() else None,
        row_ids=cursor.longs() if cursor.is_some() else None,
    )


def write_append(out: BytesWriter, it: Append) -> None:
    """Writes an Append, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    array(out, write_data_file, it.files)


def read_append(cursor: Cursor) -> Append:
    """Reads an Append."""
    return Append(
        schema=cursor.text(),
        table=cursor.text(),
        files=files_without_row_ids(cursor.array(read_data_file), Append.kind),
    )


def write_position_delete(out: BytesWriter, it: PositionDelete) -> None:
    """Writes a PositionDelete, as `schemas/proposal.avsc` has it."""
    long(out, it.data_file_id)
    write_positions(out, it.rows)


def read_position_delete(cursor: Cursor) -> PositionDelete:
    """Reads a PositionDelete."""
    return PositionDelete(data_file_id=cursor.long(), rows=read_positions(cursor))


def write_delete_file(out: BytesWriter, it: DeleteFile) -> None:
    """Writes a DeleteFile, as `schemas/proposal.avsc` has it."""
    long(out, it.data_file_id)
    text(out, it.path)
    flag(out, it.path_is_relative)
    write_positions(out, it.rows)
    long(out, it.file_size_bytes)
    maybe_long(out, it.footer_size)


def read_delete_file(cursor: Cursor) -> DeleteFile:
    """Reads a DeleteFile."""
    return DeleteFile(
        data_file_id=cursor.long(),
        path=cursor.text(),
        path_is_relative=cursor.flag(),
        rows=read_positions(cursor),
        file_size_bytes=cursor.long(),
        footer_size=cursor.maybe_long(),
    )


def write_delete(out: BytesWriter, it: Delete) -> None:
    """Writes a Delete, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    array(out, write_position_delete, it.positions)
    array(out, write_delete_file, it.delete_files)
    longs(out, it.whole_files)


def read_delete(cursor: Cursor) -> Delete:
    """Reads a Delete."""
    return Delete(
        schema=cursor.text(),
        table=cursor.text(),
        positions=cursor.array(read_position_delete),
        delete_files=cursor.array(read_delete_file),
        whole_files=cursor.longs(),
    )


def write_compact(out: BytesWriter, it: Compact) -> None:
    """Writes a Compact, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    longs(out, it.replaced)
    array(out, write_data_file, it.files)


def read_compact(cursor: Cursor) -> Compact:
    """Reads a Compact."""
    return Compact(
        schema=cursor.text(),
        table=cursor.text(),
        replaced=cursor.longs(),
        files=files_without_row_ids(cursor.array(read_data_file), Compact.kind),
    )


def write_row_origin(out: BytesWriter, it: RowOrigin) -> None:
    """Writes a RowOrigin, as `schemas/proposal.avsc` has it."""
    text(out, it.node)
    long(out, it.tick)
    long(out, it.stamp_ms)
    long(out, it.priority)


def read_row_origin(cursor: Cursor) -> RowOrigin:
    """Reads a RowOrigin."""
    return RowOrigin(node=cursor.text(), tick=cursor.long(), stamp_ms=cursor.long(), priority=cursor.long())


def write_insert_row(out: BytesWriter, it: InsertRow) -> None:
    """Writes an InsertRow, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    write_row(out, it.row)
    maybe_long(out, it.row_time_us)
    if it.origin is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_row_origin(out, it.origin)
    maybe_text(out, it.identity)


def read_insert_row(cursor: Cursor) -> InsertRow:
    """Reads an InsertRow."""
    return InsertRow(
        schema=cursor.text(),
        table=cursor.text(),
        row=read_row(cursor),
        row_time_us=cursor.maybe_long(),
        origin=read_row_origin(cursor) if cursor.is_some() else None,
        identity=cursor.maybe_text(),
    )


def write_update_row(out: BytesWriter, it: UpdateRow) -> None:
    """Writes an UpdateRow, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    write_row(out, it.key)
    write_row(out, it.row)
    maybe_long(out, it.row_time_us)
    if it.origin is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_row_origin(out, it.origin)
    maybe_text(out, it.identity)


def read_update_row(cursor: Cursor) -> UpdateRow:
    """Reads an UpdateRow."""
    return UpdateRow(
        schema=cursor.text(),
        table=cursor.text(),
        key=read_row(cursor),
        row=read_row(cursor),
        row_time_us=cursor.maybe_long(),
        origin=read_row_origin(cursor) if cursor.is_some() else None,
        identity=cursor.maybe_text(),
    )


def write_delete_row(out: BytesWriter, it: DeleteRow) -> None:
    """Writes a DeleteRow, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    write_row(out, it.key)
    maybe_long(out, it.row_time_us)
    if it.origin is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_row_origin(out, it.origin)
    flag(out, it.moves)


def read_delete_row(cursor: Cursor) -> DeleteRow:
    """Reads a DeleteRow."""
    return DeleteRow(
        schema=cursor.text(),
        table=cursor.text(),
        key=read_row(cursor),
        row_time_us=cursor.maybe_long(),
        origin=read_row_origin(cursor) if cursor.is_some() else None,
        moves=cursor.flag(),
    )


def write_flush(out: BytesWriter, it: Flush) -> None:
    """Writes a Flush, as `schemas/proposal.avsc` has it."""
    text(out, it.schema)
    text(out, it.table)
    array(out, write_data_file, it.files)


def read_flush(cursor: Cursor) -> Flush:
    """Reads a Flush."""
    return Flush(
        schema=cursor.text(), table=cursor.text(), files=files_with_row_ids(cursor.array(read_data_file), Flush.kind)
    )


def write_expire_snapshots(out: BytesWriter, it: ExpireSnapshots) -> None:
    """Writes an ExpireSnapshots, as `schemas/proposal.avsc` has it."""
    long(out, it.older_than_snapshot_id)


def read_expire_snapshots(cursor: Cursor) -> ExpireSnapshots:
    """Reads an ExpireSnapshots."""
    return ExpireSnapshots(older_than_snapshot_id=cursor.long())


def write_configure(out: BytesWriter, it: Configure) -> None:
    """Writes a Configure, as `schemas/proposal.avsc` has it."""
    mapping(out, scalar, it.settings)


def read_configure(cursor: Cursor) -> Configure:
    """Reads a Configure."""
    return Configure(settings=cursor.mapping(read_scalar))


def write_known_node(out: BytesWriter, it: KnownNode) -> None:
    """Writes a KnownNode, as `schemas/proposal.avsc` has it."""
    text(out, it.node)
    long(out, it.tick)
    long(out, it.priority)


def read_known_node(cursor: Cursor) -> KnownNode:
    """Reads a KnownNode."""
    return KnownNode(node=cursor.text(), tick=cursor.long(), priority=cursor.long())


def write_displaced_row(out: BytesWriter, it: DisplacedRow) -> None:
    """Writes a DisplacedRow, as `schemas/proposal.avsc` has it."""
    long(out, it.table_id)
    write_row(out, it.row)


def read_displaced_row(cursor: Cursor) -> DisplacedRow:
    """Reads a DisplacedRow."""
    return DisplacedRow(table_id=cursor.long(), row=read_row(cursor))


def write_replicated(out: BytesWriter, it: Replicated) -> None:
    """Writes a Replicated, as `schemas/proposal.avsc` has it."""
    text(out, it.node)
    long(out, it.tick)
    array(out, write_known_node, it.digest)
    array(out, write_displaced_row, it.displaced)


def read_replicated(cursor: Cursor) -> Replicated:
    """Reads a Replicated."""
    return Replicated(
        node=cursor.text(),
        tick=cursor.long(),
        digest=cursor.array(read_known_node),
        displaced=cursor.array(read_displaced_row),
    )


def write_proposal(out: BytesWriter, it: Proposal) -> None:
    """Writes a Proposal, as `schemas/proposal.avsc` has it."""
    fixed(out, it.proposal_id, 16)
    text(out, it.writer_id)
    maybe_long(out, it.writer_epoch)
    maybe_long(out, it.writer_seq)
    long(out, it.base_snapshot_id)
    out.append(_ISOLATION[it.isolation])
    flag(out, it.open_writer)
    maybe_long(out, it.decide_before_ms)
    long(out, it.created_at_ms)
    maybe_text(out, it.author)
    maybe_text(out, it.message)
    maybe_text(out, it.extra)
    array(out, write_read, it.reads)
    array(out, write_change, it.changes)
    if it.replicated is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_replicated(out, it.replicated)


def read_proposal(cursor: Cursor) -> Proposal:
    """Reads a Proposal."""
    return check_id_version(
        Proposal(
            proposal_id=cursor.fixed(16),
            writer_id=cursor.text(),
            writer_epoch=cursor.maybe_long(),
            writer_seq=cursor.maybe_long(),
            base_snapshot_id=cursor.long(),
            isolation=cursor.symbol(_ISOLATION_MEMBERS),
            open_writer=cursor.flag(),
            decide_before_ms=cursor.maybe_long(),
            created_at_ms=cursor.long(),
            author=cursor.maybe_text(),
            message=cursor.maybe_text(),
            extra=cursor.maybe_text(),
            reads=cursor.array(read_read),
            changes=cursor.array(read_change),
            replicated=read_replicated(cursor) if cursor.is_some() else None,
        )
    )


_READ_WRITERS: Final[Mapping[type, tuple[int, Callable[[BytesWriter, Any], None]]]] = {
    TableRead: (0, write_table_read),
    NameRead: (1, write_name_read),
    RowsRead: (2, write_rows_read),
}
_READ_READERS: Final[tuple[Callable[[Cursor], Read], ...]] = (
    read_table_read,
    read_name_read,
    read_rows_read,
)


def write_read(out: BytesWriter, it: Read) -> None:
    """Writes which read it is, and the read."""
    branch, write = _READ_WRITERS[type(it)]
    long(out, branch)
    write(out, it)


def read_read(cursor: Cursor) -> Read:
    """Reads which read it is, and the read."""
    return cursor.symbol(_READ_READERS)(cursor)


_CHANGE_WRITERS: Final[Mapping[type, tuple[int, Callable[[BytesWriter, Any], None]]]] = {
    CreateSchema: (0, write_create_schema),
    DropSchema: (1, write_drop_schema),
    CreateTable: (2, write_create_table),
    DropTable: (3, write_drop_table),
    RenameTable: (4, write_rename_table),
    AlterTable: (5, write_alter_table),
    CreateView: (6, write_create_view),
    ReplaceView: (7, write_replace_view),
    DropView: (8, write_drop_view),
    Append: (9, write_append),
    Delete: (10, write_delete),
    Compact: (11, write_compact),
    InsertRow: (12, write_insert_row),
    UpdateRow: (13, write_update_row),
    DeleteRow: (14, write_delete_row),
    Flush: (15, write_flush),
    ExpireSnapshots: (16, write_expire_snapshots),
    Configure: (17, write_configure),
}
_CHANGE_READERS: Final[tuple[Callable[[Cursor], Change], ...]] = (
    read_create_schema,
    read_drop_schema,
    read_create_table,
    read_drop_table,
    read_rename_table,
    read_alter_table,
    read_create_view,
    read_replace_view,
    read_drop_view,
    read_append,
    read_delete,
    read_compact,
    read_insert_row,
    read_update_row,
    read_delete_row,
    read_flush,
    read_expire_snapshots,
    read_configure,
)


def write_change(out: BytesWriter, it: Change) -> None:
    """Writes which change it is, and the change."""
    branch, write = _CHANGE_WRITERS[type(it)]
    long(out, branch)
    write(out, it)


def read_change(cursor: Cursor) -> Change:
    """Reads which change it is, and the change."""
    return cursor.symbol(_CHANGE_READERS)(cursor)
