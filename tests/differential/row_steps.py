"""Steps that write: files, deletes in them, compactions, and rows outside of files."""

from __future__ import annotations

from typing import Any

from kinds import Value
from sides import ROW_ID, quote, text
from steps import File, Step, Steps, Table

from commitlog.domain.model import Outcome

INLINED = "SET ducklake_default_data_inlining_row_limit = 100"
IN_FILES = "SET ducklake_default_data_inlining_row_limit = 0"


class RowSteps(Steps):
    """Each says one write to both sides."""

    # --- files --------------------------------------------------------------------------------------------------------

    def say_append(self, step: Step, table: Table, *, rows: list[dict[str, Value]], before: int = 0) -> None:
        """Insert rows in a file; ``before`` files are made by the step's earlier changes."""
        query = self.values_sql(table, rows)
        step.statements += [IN_FILES, f"INSERT INTO {table.sql()} {query}"]
        by_duckdb = any(kind.by_duckdb_only for kind in table.columns.values()) or self.random.random() < 0.3
        made: list[dict[str, Any]] = []

        def change() -> dict[str, Any]:
            definition = self.ours.definition(table.schema, table.name)
            made.append(self.ours.write(definition, query, by_duckdb=by_duckdb))
            return table.change("APPEND", files=made)

        step.changes.append(change)
        step.after.append(lambda outcome: self.note_file(table, outcome, made[0]))

    def note_file(self, table: Table, outcome: Outcome, file: dict[str, Any]) -> None:
        state = self.ours.log.state
        known = {f.data_file_id for t in self.tables for f in t.files}
        table_state = next(
            t
            for t in state.tables.values()
            if t.name == table.name and t.schema.name == table.schema and t.dropped_at is None
        )
        made = outcome.assigned.data_file_ids
        (data_file_id,) = [f for f in made if f in table_state.live_files and f not in known]
        start = table_state.next_row_id - file["record_count"]
        table.files.append(File(data_file_id, file["path"], list(range(start, table_state.next_row_id))))
        table.had_files = True

    def append(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables)
        if table is not None:
            self.say_append(step, table, rows=self.draw_rows(table, self.random.randint(1, 5)))
        return table

    def mapped(self, step: Step, tables: list[Table]) -> Table | None:
        """Both sides take one file that has no field ids."""
        table = self.pick([t for t in tables if not t.partition_by and not t.not_null])
        if table is None or step.statements:
            return None
        definition = self.ours.definition(table.schema, table.name)
        by_duckdb = any(kind.by_duckdb_only for kind in table.columns.values())
        rows = self.draw_rows(table, self.random.randint(1, 4))
        file = self.ours.write(definition, self.values_sql(table, rows), by_duckdb=by_duckdb, field_ids=False)
        step.statements.append(
            f"CALL ducklake_add_data_files('stock', {text(table.name)}, {text(file['path'])}, schema => {text(table.schema)})"
        )
        step.changes.append(lambda: table.change("APPEND", files=[file]))
        step.after.append(lambda outcome: self.note_file(table, outcome, file))
        step.alone = True
        return table

    def say_delete(self, step: Step, table: Table, file: File, positions: list[int]) -> None:
        ids = ", ".join(str(file.row_ids[n]) for n in positions)
        small = self.random.random() < 0.3
        step.statements += [INLINED if small else IN_FILES, f"DELETE FROM {table.sql()} WHERE rowid IN ({ids})"]
        form = self.random.choice(["positions", "delete_file"])
        if form == "positions":
            step.changes.append(
                lambda: table.change("DELETE", positions=[{"data_file_id": file.data_file_id, "rows": positions}])
            )
            step.then(lambda: self.note_positions(table, file, positions))
            return
        rows = sorted(file.by_file | set(positions))
        entry = {
            "data_file_id": file.data_file_id,
            "path": self.ours.delete_file(file.path, rows),
            "path_is_relative": False,
            "rows": rows,
            "file_size_bytes": 900,
        }
        step.changes.append(lambda: table.change("DELETE", delete_files=[entry]))
        step.then(lambda: self.note_filed(table, file, positions))

    def note_positions(self, table: Table, file: File, positions: list[int]) -> None:
        table.deviates |= bool(file.by_file)
        file.by_position.update(positions)

    def note_filed(self, table: Table, file: File, positions: list[int]) -> None:
        table.deleted_again |= bool(file.by_file)
        table.deviates |= bool(file.by_position) or (bool(file.by_file) and len(positions) == len(file.live()))
        file.by_file.update(positions)

    def choose_rows(self, table: Table) -> tuple[File, list[int]] | None:
        files = [file for file in table.files if file.live()]
        if not files:
            return None
        file = self.random.choice(files)
        return file, sorted(self.random.sample(file.live(), self.random.randint(1, len(file.live()))))

    def delete(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, files=True)
        if table is not None and (found := self.choose_rows(table)) is not None:
            self.say_delete(step, table, *found)
        return table

    def update(self, step: Step, tables: list[Table]) -> Table | None:
        """Delete and append in one changeset."""
        table = self.pick(tables, files=True)
        if table is not None and (found := self.choose_rows(table)) is not None:
            self.say_delete(step, table, *found)
            self.say_append(step, table, rows=self.draw_rows(table, len(found[1])))
        return table

    def whole(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, files=True)
        if table is None:
            return None
        able = [file for file in table.files if file.live() and not file.by_position]
        if not able:
            return None
        file = self.random.choice(able)
        ids = ", ".join(str(file.row_ids[n]) for n in file.live())
        step.statements += [IN_FILES, f"DELETE FROM {table.sql()} WHERE rowid IN ({ids})"]
        step.changes.append(lambda: table.change("DELETE", whole_files=[file.data_file_id]))
        step.then(lambda: table.files.remove(file))
        return table

    def compact(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, files=True)
        if table is None or step.statements or not any(file.live() for file in table.files):
            return None
        dirty = any(file.by_position or file.by_file for file in table.files)
        call = f"'stock', {text(table.name)}, schema => {text(table.schema)}"
        if dirty:
            step.statements.append(f"CALL ducklake_rewrite_data_files({call}, delete_threshold => 0)")
        else:
            step.statements.append(f"CALL ducklake_merge_adjacent_files({call})")
        replaced = [file for file in table.files if not dirty or file.by_position or file.by_file]
        row_ids = sorted(file.row_ids[n] for file in replaced for n in file.live())
        made: list[dict[str, Any]] = []

        def change() -> dict[str, Any]:
            if row_ids:
                definition = self.ours.definition(table.schema, table.name)
                query = (
                    f"SELECT *, rowid AS {ROW_ID} FROM {table.sql('ours')} "
                    f"WHERE rowid IN ({', '.join(map(str, row_ids))}) ORDER BY rowid"
                )
                by_duckdb = any(kind.by_duckdb_only for kind in table.columns.values()) or self.random.random() < 0.5
                made.append(self.ours.write(definition, query, by_duckdb=by_duckdb, with_ids=True))
            return table.change("COMPACT", replaced=[file.data_file_id for file in replaced], files=made)

        def note(outcome: Outcome) -> None:
            table.compacted = True
            table.deviates |= not dirty or any(file.by_position for file in replaced)
            table.files = [file for file in table.files if file not in replaced]
            if made:
                table.files.append(File(outcome.assigned.data_file_ids[0], made[0]["path"], row_ids))

        step.changes.append(change)
        step.after.append(note)
        step.alone = True
        return table

    # --- rows outside of files ----------------------------------------------------------------------------------------

    def inlined(self, step: Step, tables: list[Table]) -> Table | None:
        """Rows without a key: a plain insert that stays in the catalog."""
        table = self.pick([t for t in tables if all(kind.in_rows for kind in t.columns.values())])
        if table is not None:
            self.say_inserts(step, table, self.draw_rows(table, self.random.randint(1, 3)))
        return table

    def say_inserts(self, step: Step, table: Table, rows: list[dict[str, Value]]) -> None:
        step.statements += [INLINED, f"INSERT INTO {table.sql()} {self.values_sql(table, rows)}"]
        for row in rows:
            image = {column: value for column, (_, value) in row.items()}
            step.changes.append(lambda image=image: table.change("INSERT_ROW", row=image))

    def rows(self, step: Step, tables: list[Table]) -> Table | None:
        table = self.pick(tables, keyed=True)
        if table is None:
            return None
        keys = self.random.sample(range(6), self.random.randint(1, 3))
        new = [key for key in keys if key not in table.rows]
        if new:
            rows = self.draw_rows(table, len(new))
            for key, row in zip(new, rows, strict=True):
                row["id"] = (f"({key})::BIGINT", key)
            self.say_inserts(step, table, rows)
            step.then(lambda: table.rows.update(new))
        for key in keys:
            if key not in table.rows:
                continue
            if self.random.random() < 0.5:
                self.say_update(step, table, key)
            else:
                step.statements += [INLINED, f"DELETE FROM {table.sql()} WHERE id = {key}"]
                step.changes.append(lambda key=key: table.change("DELETE_ROW", key={"id": key}))
                step.then(lambda key=key: table.rows.discard(key))
        return table

    def say_update(self, step: Step, table: Table, key: int) -> None:
        row = self.draw_rows(table, 1)[0]
        row["id"] = (f"({key})::BIGINT", key)
        sets = ", ".join(f"{quote(column)} = {value[0]}" for column, value in row.items() if column != "id")
        if not sets:
            return
        step.statements += [INLINED, f"UPDATE {table.sql()} SET {sets} WHERE id = {key}"]
        image = {column: value for column, (_, value) in row.items()}
        step.changes.append(lambda: table.change("UPDATE_ROW", key={"id": key}, row=image))
