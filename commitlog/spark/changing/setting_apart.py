"""Rows to change that stand in more places than a proposal can name are first brought into files of their own, which go whole.

That is a compaction: the table has the same rows before and after, each with its id, and who reads it sees no change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyroaring import FrozenBitMap64

from commitlog.client.files.removing import remove_files
from commitlog.client.writing.proposal_room import rewritten_at_once
from commitlog.domain.model import DataFile, Reason
from commitlog.errors import InvalidRequestError, ProposalRejectedError
from commitlog.spark.changing.base import Base, only
from commitlog.spark.changing.matching import Found
from commitlog.spark.reading.dataframes import with_row_ids
from commitlog.spark.reading.scan_files import NO_POSITIONS
from commitlog.spark.writing.column_fit import fit_with_ids
from commitlog.spark.writing.parquet_files import write_new
from commitlog.spark.writing.partitions import described, write_rows
from commitlog.spark.writing.publish import commit


class ScatteredRowsError(InvalidRequestError):
    """Rows stand in more places than a proposal can name, of which those in ``data_file_ids`` would have to go."""

    def __init__(self, base: Base, found: Found, data_file_ids: Sequence[int]) -> None:
        self.base = base
        self.found = found
        self.data_file_ids = data_file_ids
        count, limits = sum(len(found.positions[each]) for each in data_file_ids), base.log.settings
        super().__init__(
            f"{count:,} rows of table {base.table} to change stand in {len(data_file_ids):,} files, in more places than a "
            f"proposal of {limits.proposal_bytes_max:,} bytes (proposal_bytes_max) and {limits.files_max:,} files (files_max) "
            "can name: change them by a call of its own, which rewrites these files first, not in a transaction, nor by rows "
            "that were made of the table's own"
        )


def set_apart(scattered: ScatteredRowsError) -> None:
    """Rewrite the files as such of which all rows are to change, and such of which none is: a commit for some at a time.

    Files that somebody else has changed meanwhile stay as they are: the rows have to be looked for again.
    """
    base, found = scattered.base, scattered.found
    files = only(base, frozenset(scattered.data_file_ids)).scan.files
    for group in rewritten_at_once(files, base.definition, base.log.settings):
        try:
            found.remember(_rewritten(only(base, {each.data_file_id for each in group}), found.positions))
        except ProposalRejectedError as error:
            if error.outcome.reason is not Reason.CONFLICT:
                raise


def _rewritten(part: Base, positions: Mapping[int, FrozenBitMap64]) -> dict[int, FrozenBitMap64]:
    """By id of the new files the rows to change in them: all or none."""
    files = part.scan.files
    others = {
        each.data_file_id: FrozenBitMap64(range(each.record_count)) - positions[each.data_file_id] for each in files
    }
    transaction = part.log.transaction(
        base_snapshot_id=part.scan.snapshot_id, message=f"rows to change of {part.table} are brought together"
    )
    paths: list[str] = []
    try:
        staying = _written(part, positions, paths)
        going = _written(part, others, paths)
        transaction.compact(part.table, [each.data_file_id for each in files], [*staying, *going])
    except BaseException:
        remove_files(paths)
        raise
    outcome = commit(transaction, paths, {part.table: part.path})
    ids = outcome.assigned.data_file_ids
    return {
        **dict.fromkeys(ids[: len(staying)], NO_POSITIONS),
        **{id_: FrozenBitMap64(range(each.record_count)) for id_, each in zip(ids[len(staying) :], going, strict=True)},
    }


def _written(part: Base, left_out: Mapping[int, FrozenBitMap64], paths: list[str]) -> list[DataFile]:
    """The files' rows but for some as new files, whose ``paths`` are added there."""
    files = tuple(replace(each, deleted=each.deleted | left_out[each.data_file_id]) for each in part.scan.files)
    rows = fit_with_ids(with_row_ids(part.spark, replace(part.scan, files=files)), part.definition)
    known = files[0].partition_values
    if part.definition.partition_by and known is None:
        new = write_rows(rows, part.definition, part.path)
    else:
        new = write_new(rows.coalesce(len(files)), part.path)
    paths += new
    return described(new, part.definition, part.path, carry_row_ids=True, partition_values=known)
