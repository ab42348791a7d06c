"""Which rows of the source began and ended when: the files and inlined rows of each table, ordered by snapshot.

What began before the oldest kept snapshot counts as beginning with it, and what ended by then is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from commitlog.adoption.files import SourceFiles
from commitlog.adoption.source import Row, SourceLake


@dataclass(slots=True)
class Piece:
    """Rows that began together, to become one file of the log.

    Attributes:
        table_id: of the source.
        begin: the snapshot.
        file: the source's data file, None for rows that its catalog holds.
        path: of that file, absolute.
        positions: of the rows in that file; None is all of them.
        inlined: the inlined data table of the rows.
        inlined_rows: (row id, begin) of its rows.
        data_file_id: that the log has given it, when it has.
        ended: it was deleted or replaced as a whole.
        filed: positions that a delete file holds.
    """

    table_id: int
    begin: int
    file: Row | None = None
    path: str = ""
    positions: Sequence[int] | None = None
    inlined: str | None = None
    inlined_rows: Sequence[tuple[int, int]] = ()
    data_file_id: int = -1
    log_path: str = ""
    ended: bool = False
    filed: set[int] = field(default_factory=set)

    @property
    def order(self) -> tuple[int, int]:
        """By the source's row ids; files that carry theirs come last."""
        if self.file is None:
            return (self.inlined_rows[0][0] if self.inlined_rows else 0), 0
        start = self.file["row_id_start"]
        first = self.positions[0] if self.positions else 0
        return (2**63 if start is None else start + first), self.file["data_file_id"]


@dataclass(slots=True)
class TableRows:
    """The rows of one table of the source.

    Attributes:
        pieces: what begins, by snapshot.
        deaths: positions of pieces that end one by one, by snapshot.
        ends: pieces that end as a whole, by snapshot.
        delete_files: of the source, by data file and snapshot.
    """

    pieces: dict[int, list[Piece]] = field(default_factory=lambda: defaultdict(list))
    deaths: dict[int, dict[int, tuple[Piece, set[int]]]] = field(default_factory=lambda: defaultdict(dict))
    ends: dict[int, list[Piece]] = field(default_factory=lambda: defaultdict(list))
    delete_files: dict[tuple[int, int], Row] = field(default_factory=dict)

    def die(self, snapshot_id: int, piece: Piece, position: int) -> None:
        """Note that the row at this position of a piece ends."""
        self.deaths[snapshot_id].setdefault(id(piece), (piece, set()))[1].add(position)


class RowHistory:
    """Reads the rows of the source, table by table.

    Args:
        lake: the source.
        files: its files.
        starts_at: the snapshot that everything older counts to; 0 when nothing is older.
        deletes_apart: whether a row of the start can be deleted after it was appended.
    """

    def __init__(self, lake: SourceLake, files: SourceFiles, *, starts_at: int, deletes_apart: bool) -> None:
        self._lake = lake
        self._files = files
        self._starts_at = starts_at
        self._deletes_apart = deletes_apart
        self._folders = _table_folders(lake)

    def of_table(self, table_id: int) -> TableRows:
        """The history of one table's rows."""
        rows = TableRows()
        files = {
            row["data_file_id"]: row
            for row in self._lake.of_table("data_file", table_id)
            if row["end_snapshot"] is None or row["end_snapshot"] > self._starts_at
        }
        deaths = self._deaths(table_id, files, rows)
        for data_file_id, row in files.items():
            self._add_file(rows, row, deaths.get(data_file_id, {}))
        for table in self._lake.of_table("inlined_data_tables", table_id):
            self._add_inlined(rows, table_id, table["table_name"])
        for pieces in rows.pieces.values():
            pieces.sort(key=lambda piece: piece.order)
        return rows

    def path_of(self, row: Row) -> str:
        """The absolute path of a file."""
        path: str = row["path"]
        return self._folders[row["table_id"]] + path if row["path_is_relative"] else path

    def _deaths(self, table_id: int, files: Mapping[int, Row], rows: TableRows) -> dict[int, dict[int, int]]:
        """By data file and position the snapshot that deleted it."""
        found: dict[int, dict[int, int]] = defaultdict(dict)

        def note(data_file_id: int, position: int, snapshot_id: int) -> None:
            known = found[data_file_id].get(position)
            if known is None or snapshot_id < known:
                found[data_file_id][position] = snapshot_id

        for row in self._lake.of_table("delete_file", table_id):
            if row["data_file_id"] in files and (row["end_snapshot"] is None or row["end_snapshot"] > self._starts_at):
                for position, snapshot_id in self._files.delete_file(self.path_of(row), row["begin_snapshot"]):
                    note(row["data_file_id"], position, snapshot_id)
                rows.delete_files[row["data_file_id"], row["begin_snapshot"]] = row
        for data_file_id, position, snapshot_id in self._lake.inlined_deletes(table_id):
            if data_file_id in files:
                note(data_file_id, position, snapshot_id)
        return found

    def _add_file(self, rows: TableRows, row: Row, deaths: Mapping[int, int]) -> None:
        path = self.path_of(row)
        births = self._files.births(path) if row["partial_max"] is not None else None
        if births is None:
            self._files.check(path)
            begin = max(row["begin_snapshot"], self._starts_at)
            if all(self._is_seen(begin, at) for at in deaths.values()):
                piece = Piece(row["table_id"], begin, row, path)
                self._place(rows, piece, row)
                for position in sorted(deaths):
                    rows.die(max(deaths[position], begin), piece, position)
                return
            births = [row["begin_snapshot"]] * row["record_count"]
        groups: dict[int, list[int]] = defaultdict(list)
        for position, born in enumerate(births):
            begin, death = max(born, self._starts_at), deaths.get(position)
            if death is None or self._is_seen(begin, death):
                groups[begin].append(position)
        whole = len(groups) == 1 and sum(map(len, groups.values())) == row["record_count"]
        for begin, positions in groups.items():
            piece = Piece(row["table_id"], begin, row, path, None if whole else positions)
            self._place(rows, piece, row)
            for place, position in enumerate(positions):
                death = deaths.get(position)
                if death is not None:
                    rows.die(max(death, begin), piece, place)

    def _is_seen(self, begin: int, death: int) -> bool:
        """Whether a row that begins and ends at some snapshots is seen in between, or at least comes before it goes."""
        return death > begin or (begin == self._starts_at and self._deletes_apart)

    def _place(self, rows: TableRows, piece: Piece, row: Row) -> None:
        rows.pieces[piece.begin].append(piece)
        if row["end_snapshot"] is not None:
            rows.ends[row["end_snapshot"]].append(piece)

    def _add_inlined(self, rows: TableRows, table_id: int, name: str) -> None:
        groups: dict[int, list[tuple[int, int, int | None]]] = defaultdict(list)
        for row_id, born, end in sorted(self._lake.inlined_rows(name), key=lambda row: row[:2]):
            begin = max(born, self._starts_at)
            if end is None or end > begin:
                groups[begin].append((row_id, born, end))
        for begin, held in groups.items():
            piece = Piece(table_id, begin, inlined=name, inlined_rows=[(row_id, born) for row_id, born, _ in held])
            rows.pieces[begin].append(piece)
            for place, (_, _, end) in enumerate(held):
                if end is not None:
                    rows.die(end, piece, place)


def _table_folders(lake: SourceLake) -> dict[int, str]:
    """The absolute folder of each table, where its relative paths start."""
    schemas: dict[int, str] = {}
    for row in lake.rows["schema"]:
        schemas[row["schema_id"]] = _below(lake.data_path, row)
    return {row["table_id"]: _below(schemas.get(row["schema_id"], lake.data_path), row) for row in lake.rows["table"]}


def _below(folder: str, row: Row) -> str:
    path = row["path"] or ""
    joined = folder + path if row["path_is_relative"] or not path else path
    return joined if joined.endswith("/") else joined + "/"
