"""Generated from schemas/proposal.avsc by `make records`: their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

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
    DropSchema,
    DropTable,
    DropView,
    ExpireSnapshots,
    FilterOp,
    Flush,
    ForeignKeySpec,
    InsertRow,
    Isolation,
    NameRead,
    PartitionSpec,
    PositionDelete,
    Predicate,
    Proposal,
    Read,
    RenameTable,
    ReplaceView,
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
from commitlog.log.codec.statistics import read_statistics, statistics_bytes
from commitlog.log.codec.values import (
    check_case,
    check_predicate,
    files_with_row_ids,
    files_without_row_ids,
    literal_bytes,
    name_mapping_bytes,
    positions_bytes,
    read_literal,
    read_name_mapping,
    read_positions,
    read_row,
    read_scalar,
    row_bytes,
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


def predicate_bytes(it: Predicate) -> bytes:
    """The bytes of a Predicate, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.column), _FILTER_OP[it.op], literal_bytes(it.value)))


def read_predicate(cursor: Cursor) -> Predicate:
    """Reads a Predicate."""
    return check_predicate(
        Predicate(column=cursor.text(), op=cursor.symbol(_FILTER_OP_MEMBERS), value=read_literal(cursor))
    )


def table_read_bytes(it: TableRead) -> bytes:
    """The bytes of a TableRead, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            text(it.schema),
            text(it.table),
            array(predicate_bytes, it.filter),
            NULL if it.files is None else SOME + longs(it.files),
        )
    )


def read_table_read(cursor: Cursor) -> TableRead:
    """Reads a TableRead."""
    return TableRead(
        schema=cursor.text(),
        table=cursor.text(),
        filter=cursor.array(read_predicate),
        files=cursor.longs() if cursor.is_some() else None,
    )


def name_read_bytes(it: NameRead) -> bytes:
    """The bytes of a NameRead, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), maybe_text(it.name)))


def read_name_read(cursor: Cursor) -> NameRead:
    """Reads a NameRead."""
    return NameRead(schema=cursor.text(), name=cursor.maybe_text())


def rows_read_bytes(it: RowsRead) -> bytes:
    """The bytes of a RowsRead, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.table), array(row_bytes, it.keys)))


def read_rows_read(cursor: Cursor) -> RowsRead:
    """Reads a RowsRead."""
    return RowsRead(schema=cursor.text(), table=cursor.text(), keys=cursor.array(read_row))


def create_schema_bytes(it: CreateSchema) -> bytes:
    """The bytes of a CreateSchema, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), flag(it.if_not_exists)))


def read_create_schema(cursor: Cursor) -> CreateSchema:
    """Reads a CreateSchema."""
    return CreateSchema(schema=cursor.text(), if_not_exists=cursor.flag())


def drop_schema_bytes(it: DropSchema) -> bytes:
    """The bytes of a DropSchema, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), flag(it.cascade), flag(it.if_exists)))


def read_drop_schema(cursor: Cursor) -> DropSchema:
    """Reads a DropSchema."""
    return DropSchema(schema=cursor.text(), cascade=cursor.flag(), if_exists=cursor.flag())


def column_spec_bytes(it: ColumnSpec) -> bytes:
    """The bytes of a ColumnSpec, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.name), text(it.type), flag(it.nullable), maybe_text(it.default)))


def read_column_spec(cursor: Cursor) -> ColumnSpec:
    """Reads a ColumnSpec."""
    return ColumnSpec(name=cursor.text(), type=cursor.text(), nullable=cursor.flag(), default=cursor.maybe_text())


def foreign_key_spec_bytes(it: ForeignKeySpec) -> bytes:
    """The bytes of a ForeignKeySpec, as `schemas/proposal.avsc` has it."""
    return b"".join((texts(it.columns), text(it.ref_schema), text(it.ref_table), texts(it.ref_columns)))


def read_foreign_key_spec(cursor: Cursor) -> ForeignKeySpec:
    """Reads a ForeignKeySpec."""
    return ForeignKeySpec(
        columns=cursor.texts(), ref_schema=cursor.text(), ref_table=cursor.text(), ref_columns=cursor.texts()
    )


def partition_spec_bytes(it: PartitionSpec) -> bytes:
    """The bytes of a PartitionSpec, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.column), text(it.transform)))


def read_partition_spec(cursor: Cursor) -> PartitionSpec:
    """Reads a PartitionSpec."""
    return PartitionSpec(column=cursor.text(), transform=cursor.text())


def create_table_bytes(it: CreateTable) -> bytes:
    """The bytes of a CreateTable, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            text(it.schema),
            text(it.table),
            array(column_spec_bytes, it.columns),
            texts(it.primary_key),
            array(texts, it.unique),
            array(foreign_key_spec_bytes, it.foreign_keys),
            array(partition_spec_bytes, it.partition_by),
            texts(it.exclusion_constraints),
            mapping(text, it.properties),
            flag(it.if_not_exists),
        )
    )


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


def drop_table_bytes(it: DropTable) -> bytes:
    """The bytes of a DropTable, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.table), flag(it.if_exists)))


def read_drop_table(cursor: Cursor) -> DropTable:
    """Reads a DropTable."""
    return DropTable(schema=cursor.text(), table=cursor.text(), if_exists=cursor.flag())


def rename_table_bytes(it: RenameTable) -> bytes:
    """The bytes of a RenameTable, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.table), text(it.new_table)))


def read_rename_table(cursor: Cursor) -> RenameTable:
    """Reads a RenameTable."""
    return RenameTable(schema=cursor.text(), table=cursor.text(), new_table=cursor.text())


def alteration_bytes(it: Alteration) -> bytes:
    """The bytes of an Alteration, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            _ALTER_OP[it.op],
            NULL if it.column is None else SOME + column_spec_bytes(it.column),
            maybe_text(it.name),
            maybe_text(it.new_name),
            maybe_text(it.type),
            maybe_flag(it.nullable),
            maybe_text(it.default),
            array(partition_spec_bytes, it.partition_by),
            maybe_text(it.comment),
            maybe_text(it.key),
            maybe_text(it.value),
        )
    )


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


def alter_table_bytes(it: AlterTable) -> bytes:
    """The bytes of an AlterTable, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.table), array(alteration_bytes, it.alterations)))


def read_alter_table(cursor: Cursor) -> AlterTable:
    """Reads an AlterTable."""
    return AlterTable(schema=cursor.text(), table=cursor.text(), alterations=cursor.array(read_alteration))


def create_view_bytes(it: CreateView) -> bytes:
    """The bytes of a CreateView, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.view), text(it.sql), text(it.dialect), flag(it.if_not_exists)))


def read_create_view(cursor: Cursor) -> CreateView:
    """Reads a CreateView."""
    return CreateView(
        schema=cursor.text(), view=cursor.text(), sql=cursor.text(), dialect=cursor.text(), if_not_exists=cursor.flag()
    )


def replace_view_bytes(it: ReplaceView) -> bytes:
    """The bytes of a ReplaceView, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.view), text(it.sql), text(it.dialect)))


def read_replace_view(cursor: Cursor) -> ReplaceView:
    """Reads a ReplaceView."""
    return ReplaceView(schema=cursor.text(), view=cursor.text(), sql=cursor.text(), dialect=cursor.text())


def drop_view_bytes(it: DropView) -> bytes:
    """The bytes of a DropView, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.view), flag(it.if_exists)))


def read_drop_view(cursor: Cursor) -> DropView:
    """Reads a DropView."""
    return DropView(schema=cursor.text(), view=cursor.text(), if_exists=cursor.flag())


def data_file_bytes(it: DataFile) -> bytes:
    """The bytes of a DataFile, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            text(it.path),
            flag(it.path_is_relative),
            long(it.record_count),
            long(it.file_size_bytes),
            maybe_long(it.footer_size),
            statistics_bytes(it.statistics),
            NULL if it.partition_values is None else SOME + array(scalar, it.partition_values),
            NULL if it.name_mapping is None else SOME + name_mapping_bytes(it.name_mapping),
            NULL if it.row_ids is None else SOME + longs(it.row_ids),
        )
    )


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


def append_bytes(it: Append) -> bytes:
    """The bytes of an Append, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.table), array(data_file_bytes, it.files)))


def read_append(cursor: Cursor) -> Append:
    """Reads an Append."""
    return Append(
        schema=cursor.text(),
        table=cursor.text(),
        files=files_without_row_ids(cursor.array(read_data_file), Append.kind),
    )


def position_delete_bytes(it: PositionDelete) -> bytes:
    """The bytes of a PositionDelete, as `schemas/proposal.avsc` has it."""
    return b"".join((long(it.data_file_id), positions_bytes(it.rows)))


def read_position_delete(cursor: Cursor) -> PositionDelete:
    """Reads a PositionDelete."""
    return PositionDelete(data_file_id=cursor.long(), rows=read_positions(cursor))


def delete_file_bytes(it: DeleteFile) -> bytes:
    """The bytes of a DeleteFile, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            long(it.data_file_id),
            text(it.path),
            flag(it.path_is_relative),
            positions_bytes(it.rows),
            long(it.file_size_bytes),
            maybe_long(it.footer_size),
        )
    )


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


def delete_bytes(it: Delete) -> bytes:
    """The bytes of a Delete, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            text(it.schema),
            text(it.table),
            array(position_delete_bytes, it.positions),
            array(delete_file_bytes, it.delete_files),
            longs(it.whole_files),
        )
    )


def read_delete(cursor: Cursor) -> Delete:
    """Reads a Delete."""
    return Delete(
        schema=cursor.text(),
        table=cursor.text(),
        positions=cursor.array(read_position_delete),
        delete_files=cursor.array(read_delete_file),
        whole_files=cursor.longs(),
    )


def compact_bytes(it: Compact) -> bytes:
    """The bytes of a Compact, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.table), longs(it.replaced), array(data_file_bytes, it.files)))


def read_compact(cursor: Cursor) -> Compact:
    """Reads a Compact."""
    return Compact(
        schema=cursor.text(),
        table=cursor.text(),
        replaced=cursor.longs(),
        files=files_without_row_ids(cursor.array(read_data_file), Compact.kind),
    )


def row_origin_bytes(it: RowOrigin) -> bytes:
    """The bytes of a RowOrigin, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.node), long(it.tick), long(it.stamp_ms), long(it.priority)))


def read_row_origin(cursor: Cursor) -> RowOrigin:
    """Reads a RowOrigin."""
    return RowOrigin(node=cursor.text(), tick=cursor.long(), stamp_ms=cursor.long(), priority=cursor.long())


def insert_row_bytes(it: InsertRow) -> bytes:
    """The bytes of an InsertRow, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            text(it.schema),
            text(it.table),
            row_bytes(it.row),
            maybe_long(it.row_time_us),
            NULL if it.origin is None else SOME + row_origin_bytes(it.origin),
        )
    )


def read_insert_row(cursor: Cursor) -> InsertRow:
    """Reads an InsertRow."""
    return InsertRow(
        schema=cursor.text(),
        table=cursor.text(),
        row=read_row(cursor),
        row_time_us=cursor.maybe_long(),
        origin=read_row_origin(cursor) if cursor.is_some() else None,
    )


def update_row_bytes(it: UpdateRow) -> bytes:
    """The bytes of an UpdateRow, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            text(it.schema),
            text(it.table),
            row_bytes(it.key),
            row_bytes(it.row),
            maybe_long(it.row_time_us),
            NULL if it.origin is None else SOME + row_origin_bytes(it.origin),
        )
    )


def read_update_row(cursor: Cursor) -> UpdateRow:
    """Reads an UpdateRow."""
    return UpdateRow(
        schema=cursor.text(),
        table=cursor.text(),
        key=read_row(cursor),
        row=read_row(cursor),
        row_time_us=cursor.maybe_long(),
        origin=read_row_origin(cursor) if cursor.is_some() else None,
    )


def delete_row_bytes(it: DeleteRow) -> bytes:
    """The bytes of a DeleteRow, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            text(it.schema),
            text(it.table),
            row_bytes(it.key),
            maybe_long(it.row_time_us),
            NULL if it.origin is None else SOME + row_origin_bytes(it.origin),
        )
    )


def read_delete_row(cursor: Cursor) -> DeleteRow:
    """Reads a DeleteRow."""
    return DeleteRow(
        schema=cursor.text(),
        table=cursor.text(),
        key=read_row(cursor),
        row_time_us=cursor.maybe_long(),
        origin=read_row_origin(cursor) if cursor.is_some() else None,
    )


def flush_bytes(it: Flush) -> bytes:
    """The bytes of a Flush, as `schemas/proposal.avsc` has it."""
    return b"".join((text(it.schema), text(it.table), array(data_file_bytes, it.files)))


def read_flush(cursor: Cursor) -> Flush:
    """Reads a Flush."""
    return Flush(
        schema=cursor.text(), table=cursor.text(), files=files_with_row_ids(cursor.array(read_data_file), Flush.kind)
    )


def expire_snapshots_bytes(it: ExpireSnapshots) -> bytes:
    """The bytes of an ExpireSnapshots, as `schemas/proposal.avsc` has it."""
    return long(it.older_than_snapshot_id)


def read_expire_snapshots(cursor: Cursor) -> ExpireSnapshots:
    """Reads an ExpireSnapshots."""
    return ExpireSnapshots(older_than_snapshot_id=cursor.long())


def configure_bytes(it: Configure) -> bytes:
    """The bytes of a Configure, as `schemas/proposal.avsc` has it."""
    return mapping(scalar, it.settings)


def read_configure(cursor: Cursor) -> Configure:
    """Reads a Configure."""
    return Configure(settings=cursor.mapping(read_scalar))


def proposal_bytes(it: Proposal) -> bytes:
    """The bytes of a Proposal, as `schemas/proposal.avsc` has it."""
    return b"".join(
        (
            fixed(it.proposal_id, 16),
            text(it.writer_id),
            maybe_long(it.writer_epoch),
            maybe_long(it.writer_seq),
            long(it.base_snapshot_id),
            _ISOLATION[it.isolation],
            flag(it.open_writer),
            maybe_long(it.decide_before_ms),
            long(it.created_at_ms),
            maybe_text(it.author),
            maybe_text(it.message),
            maybe_text(it.extra),
            array(read_bytes, it.reads),
            array(change_bytes, it.changes),
        )
    )


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
        )
    )


_READ_BYTES: Final[Mapping[type, tuple[bytes, Callable[[Any], bytes]]]] = {
    TableRead: (long(0), table_read_bytes),
    NameRead: (long(1), name_read_bytes),
    RowsRead: (long(2), rows_read_bytes),
}
_READ_READERS: Final[tuple[Callable[[Cursor], Read], ...]] = (
    read_table_read,
    read_name_read,
    read_rows_read,
)


def read_bytes(it: Read) -> bytes:
    """The bytes of a Read, with which one it is."""
    branch, fields = _READ_BYTES[type(it)]
    return branch + fields(it)


def read_read(cursor: Cursor) -> Read:
    """Reads which read it is, and the read."""
    return cursor.symbol(_READ_READERS)(cursor)


_CHANGE_BYTES: Final[Mapping[type, tuple[bytes, Callable[[Any], bytes]]]] = {
    CreateSchema: (long(0), create_schema_bytes),
    DropSchema: (long(1), drop_schema_bytes),
    CreateTable: (long(2), create_table_bytes),
    DropTable: (long(3), drop_table_bytes),
    RenameTable: (long(4), rename_table_bytes),
    AlterTable: (long(5), alter_table_bytes),
    CreateView: (long(6), create_view_bytes),
    ReplaceView: (long(7), replace_view_bytes),
    DropView: (long(8), drop_view_bytes),
    Append: (long(9), append_bytes),
    Delete: (long(10), delete_bytes),
    Compact: (long(11), compact_bytes),
    InsertRow: (long(12), insert_row_bytes),
    UpdateRow: (long(13), update_row_bytes),
    DeleteRow: (long(14), delete_row_bytes),
    Flush: (long(15), flush_bytes),
    ExpireSnapshots: (long(16), expire_snapshots_bytes),
    Configure: (long(17), configure_bytes),
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


def change_bytes(it: Change) -> bytes:
    """The bytes of a Change, with which one it is."""
    branch, fields = _CHANGE_BYTES[type(it)]
    return branch + fields(it)


def read_change(cursor: Cursor) -> Change:
    """Reads which change it is, and the change."""
    return cursor.symbol(_CHANGE_READERS)(cursor)
