"""What the stock client answers about both lakes, which must be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
from histories import History
from sides import quote, text
from steps import Table

from commitlog.client.reading.changes import RowChanges
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.names import TableName

CATALOG = {
    "schemas": "SELECT schema_name FROM duckdb_schemas() WHERE database_name = '{side}'",
    "tables": """SELECT schema_name, table_name, column_count, comment FROM duckdb_tables()
        WHERE database_name = '{side}'""",
    "columns": """SELECT schema_name, table_name, column_name, column_index, data_type, is_nullable, column_default, comment
        FROM duckdb_columns() WHERE database_name = '{side}'""",
    "views": """SELECT schema_name, view_name, sql, column_count, comment FROM duckdb_views()
        WHERE database_name = '{side}' AND NOT internal""",
}
"""What is the same text for both; left out are uuids, paths, sizes and numbers of files, which may differ."""
_IDS = "SELECT table_name, schema_id, table_id FROM ducklake_table_info('{side}')"


def differences(history: History) -> Iterator[str]:
    """Every question that the two lakes answer differently, with both answers.

    All is read in one transaction: the client then asks for the newest snapshot just once.
    """
    history.client.duck.execute("BEGIN")
    for name, query in CATALOG.items():
        yield from _differ(history, name, query, query)
    if history.has_same_ids:
        yield from _differ(history, "ids", _IDS, _IDS)
    if not history.is_ahead:
        yield from _versions(history)
    for table in history.tables:
        yield from _past(history, table)
        yield from _pruned(history, table)
        yield from _changes(history, table)
        yield from _scanned(history, table)
    history.client.duck.execute("COMMIT")


def _answer(history: History, query: str) -> Any:
    """Rows in a fixed order, or the error's first line."""
    try:
        return sorted(history.client.rows(query), key=repr)
    except duckdb.Error as error:
        history.client.duck.execute("ROLLBACK; BEGIN")
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _differ(history: History, what: str, of_stock: str, of_ours: str) -> Iterator[str]:
    of_stock, of_ours = of_stock.replace("{side}", "stock"), of_ours.replace("{side}", "ours")
    yield from _compare(history, what, of_ours, _answer(history, of_stock), _answer(history, of_ours))


def _compare(history: History, what: str, query: str, stock: Any, ours: Any) -> Iterator[str]:
    if repr(stock) == repr(ours):
        history.agreed += 1
    else:
        if isinstance(stock, list) and isinstance(ours, list):
            theirs, mine = set(map(repr, stock)), set(map(repr, ours))
            stock = [row for row in stock if repr(row) not in mine] or stock
            ours = [row for row in ours if repr(row) not in theirs] or ours
        yield f"{what}: {query[:400]}\n    stock {stock}\n    ours  {ours}"


def _versions(history: History) -> Iterator[str]:
    query = "SELECT schema_version FROM ducklake_snapshots('{side}') WHERE snapshot_id IN "
    stock = ", ".join(str(stock) for stock, _ in history.snapshots)
    ours = ", ".join(str(ours) for _, ours in history.snapshots)
    yield from _differ(history, "schema versions", f"{query} ({stock})", f"{query} ({ours})")


def _past(history: History, table: Table) -> Iterator[str]:
    """The rows of a table, their ids and their types at every snapshot; the same error where it was not there."""
    for stock, ours in history.snapshots:
        query = "SELECT typeof(t), rowid, t.* FROM {table} AT (VERSION => {at}) t"
        yield from _differ(
            history,
            f"rows at {stock}",
            query.replace("{table}", table.sql("stock")).replace("{at}", str(stock)),
            query.replace("{table}", table.sql("ours")).replace("{at}", str(ours)),
        )


def _pruned(history: History, table: Table) -> Iterator[str]:
    """Counts under conditions that statistics prune by, and extremes, which the client takes from statistics.

    Judged by the rows themselves, read without a condition: the client's own lake misleads it after it changed a type or
    rewrote files, because it then writes statistics of the next file as those of the table.
    """
    for what, query in (("filters", _filters(history, table)), ("extremes", _extremes(table))):
        # An answer that is an error takes it away, with the transaction.
        history.client.duck.execute(f"CREATE OR REPLACE TEMP TABLE truth AS SELECT * FROM {table.sql('ours')}")
        truth, stock, ours = (
            _answer(history, query.replace("{table}", place))
            for place in ("temp.truth", table.sql("stock"), table.sql("ours"))
        )
        yield from _compare(history, what, query, truth, ours)
        if repr(stock) != repr(truth):
            history.misled.append(f"{what}: {query}: {stock}")


def _filters(history: History, table: Table) -> str:
    conditions = []
    for column in table.columns:
        conditions += [f"{quote(column)} IS NULL", f"{quote(column)} IS NOT NULL"]
        drawn = set(history.literals.get((table.name, column), ()))
        seen = sorted(literal for literal in drawn if not literal.startswith("(NULL)"))
        for literal in history.random.sample(seen, min(2, len(seen))):
            conditions += [f"{quote(column)} {op} {literal}" for op in ("=", "<", ">=")]
    chosen = ["true", *history.random.sample(conditions, min(6, len(conditions)))]
    return " UNION ALL ".join(f"SELECT {text(c)}, count(*) FROM {{table}} WHERE {c}" for c in chosen)


def _extremes(table: Table) -> str:
    columns = [column for column, kind in table.columns.items() if not kind.is_nested and kind.name != "interval"]
    asked = ", ".join(f"min({quote(column)}), max({quote(column)})" for column in columns)
    return f"SELECT count(*), {asked} FROM {{table}}"


def _changes(history: History, table: Table) -> Iterator[str]:
    if table.deviates or (table.deleted_again and history.done["expire"]):
        return
    # What the oldest snapshot that an expiry left changed is not all there any more.
    (first_stock, first_ours), (last_stock, last_ours) = history.snapshots[0], history.snapshots[-1]
    first_stock, first_ours = first_stock + 1, first_ours + 1
    if first_stock > last_stock or first_ours > last_ours:
        return
    ranges = [(first_stock, last_stock, first_ours, last_ours)]
    if table.deleted_again:
        pairs = zip(history.snapshots, history.snapshots[1:], strict=False)
        ranges = [(before[0] + 1, now[0], before[1] + 1, now[1]) for before, now in pairs if now[1] > before[1]]
    for low_stock, high_stock, low_ours, high_ours in ranges:
        yield from _changes_between(history, table, (low_stock, high_stock), (low_ours, high_ours))


def _changes_between(
    history: History, table: Table, of_stock: tuple[int, int], of_ours: tuple[int, int]
) -> Iterator[str]:
    place = f"{text(table.schema)}, {text(table.name)}"
    for name in ("table_changes", "table_insertions", "table_deletions"):
        asked = f"FROM ducklake_{name}('ours', {place}, {of_ours[0]}, {of_ours[1]})"
        stock = _answer(history, f"FROM ducklake_{name}('stock', {place}, {of_stock[0]}, {of_stock[1]})")
        ours = _answer(history, asked)
        if name == "table_changes" and isinstance(ours, list):
            ours = sorted([(history.stock_of[row[0]], *row[1:]) for row in ours], key=repr)
        yield from _compare(history, name, asked, stock, ours)
    asked = f"FROM ducklake_table_changes('ours', {place}, {of_ours[0]}, {of_ours[1]})"
    duck = _arrow(history, asked)
    if duck is not None:
        read = RowChanges(history.ours.contents, TableName(table.schema, table.name), of_ours[0] - 1, of_ours[1])
        told, read_here = _rows(duck), _rows(read.to_arrow())
        if table.compacted:
            told, read_here = _moving(told), _moving(read_here)
        yield from _compare(history, "changes read", asked, told, read_here)


def _scanned(history: History, table: Table) -> Iterator[str]:
    """What Python reads of our lake without DuckDB, at every snapshot and under conditions: what DuckDB reads of it."""
    name = TableName(table.schema, table.name)
    for _, at in history.snapshots:
        place = f"{table.sql('ours')} AT (VERSION => {at})"
        duck = _arrow(history, f"FROM {place}")
        if duck is not None:
            scan = Scan(history.ours.contents, name, at)
            yield from _compare(history, f"scan at {at}", place, _rows(duck), _rows(scan.to_arrow()))
            yield from _compare(history, f"batches at {at}", place, _rows(duck), _rows(scan.to_batches().read_all()))
            yield from _compare(history, f"count at {at}", place, duck.num_rows, scan.count())
    for where, condition in _conditions(history, table):
        duck = _arrow(history, f"FROM {table.sql('ours')} WHERE {condition}")
        if duck is not None:
            scan = Scan(history.ours.contents, name, history.snapshots[-1][1], where=where)
            yield from _compare(history, f"scan of {where}", condition, _rows(duck), _rows(scan.to_arrow()))
            yield from _compare(history, f"count of {where}", condition, duck.num_rows, scan.count())


def _arrow(history: History, query: str) -> pa.Table | None:
    """The answer with Arrow's types; None when there is none."""
    try:
        return history.client.duck.execute(query).to_arrow_table()
    except duckdb.Error:
        history.client.duck.execute("ROLLBACK; BEGIN")
        return None


def _rows(answer: pa.Table) -> list[Any]:
    """The columns and their types, but for the names of what is in a list, and the rows in a fixed order."""
    columns = [(field.name, str(field.type).replace("list<l:", "list<element:")) for field in answer.schema]
    return [columns, *sorted((tuple(row.values()) for row in answer.to_pylist()), key=repr)]


def _moving(rows: list[Any]) -> list[Any]:
    """Changes but for rows that became what they were: DuckDB takes a rewritten file's rows for updated."""
    told = [(row[0], row[1], *row[3:]) for row in rows[1:]]
    times = Counter(map(repr, told))
    return [rows[0], *(row for row, each in zip(rows[1:], told, strict=True) if times[repr(each)] == 1)]


def _conditions(history: History, table: Table) -> Iterator[tuple[list[tuple[Any, ...]], str]]:
    for column, kind in table.columns.items():
        yield [(column, "is_null")], f"{quote(column)} IS NULL"
        if kind.is_nested or kind.name in ("interval", "json"):
            continue
        literal, value = kind.draw(history.random)
        op = history.random.choice(["=", "<", "<=", ">", ">="])
        yield [(column, op, value)], f"{quote(column)} {op} ({literal})::{kind.sql}"
        other, upper = kind.draw(history.random)
        yield (
            [(column, "between", [value, upper])],
            f"{quote(column)} BETWEEN ({literal})::{kind.sql} AND ({other})::{kind.sql}",
        )
        yield [(column, "in", [value, upper])], f"{quote(column)} IN (({literal})::{kind.sql}, ({other})::{kind.sql})"
