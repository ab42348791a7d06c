"""Row changes of keyed tables as the oracle sees them: the row at the base, the row now, and what lies between."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from commitlog.domain import model as m
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.model.types import fold
from commitlog.domain.state.row_keys import canonical_text, given_key, key_of
from commitlog.errors import InvalidChangeError

from .sight import CannotBeError
from .world import Row, Table, unique_values

if TYPE_CHECKING:
    from .judging import Judge

NEVER = -1


class RowJudge:
    """The head's rows overlaid by the earlier changes of the changeset, and how each change meets them."""

    def __init__(self, judge: Judge, now_ms: int) -> None:
        self.judge_ = judge
        self.now_us = now_ms * 1000
        self.now: dict[int, dict[str, Row]] = {}
        self.mine: set[tuple[int, str]] = set()
        self.named: set[tuple[int, str]] = set()
        self.settled: set[tuple[int, str, str, str, int]] = set()
        self.otherwise: dict[tuple[int, str], int] = {}
        self.forgone: dict[tuple[int, tuple[int, ...], str], tuple[str, int]] = {}

    def rows(self, table: Table) -> dict[str, Row]:
        """The table's rows at the head, overlaid."""
        if table.id not in self.now:
            head = self.judge_.head.entries.get(table.id)
            self.now[table.id] = dict(head.rows) if head is not None else {}
        return self.now[table.id]

    def at_base(self, table: Table, key: str) -> Row | None:
        then = self.judge_.oracle.worlds[self.judge_.base].entries.get(table.id)
        return None if then is None else then.rows.get(key)

    def last(self, table: Table, key: str) -> int:
        changed = [at for at, e in self.judge_.since if e.kind == "ROW" and e.id == table.id and e.key == key]
        return changed[-1] if changed else NEVER

    def raced(self, table: Table, key: str) -> bool:
        """Whether a live row was changed since the base by somebody else."""
        return (table.id, key) not in self.mine and self.last(table, key) != NEVER

    def judge(self, change: Any, index: int) -> None:
        judge = self.judge_
        table = judge.entry(change.schema, change.table)
        definition = table.definition
        assert definition is not None
        if not definition.primary_key and not isinstance(change, m.InsertRow):
            raise CannotBeError("no primary key")
        if table.id not in judge.mine:
            judge.look(table, index, "DROP", "RENAME")
            judge.look(table, index, "ALTER", benign=False)
            if not judge.known(table):
                with suppress(InvalidChangeError, CannotBeError):
                    self.assume_refused(table, None, change)
                return
        if not definition.primary_key:
            complete_row(definition, change.row)
            return
        changed = [at for at, e in judge.since if e.kind == "ROW" and e.id == table.id]
        if judge.oracle.beyond_window(judge.base) and changed:
            judge.found("TABLE_ROWS_CHANGED", changed[-1], change=index, id=table.id)
            self.assume_refused(table, definition, change)
            return
        now = judge.head.entries.get(table.id, table).definition
        assert now is not None
        policy = now.properties.get("on_conflict") or judge.oracle.settings.on_conflict
        _One(self, table, change, index, policy).run()

    def assume_refused(self, table: Table, definition: TableDefinition | None, change: Any) -> None:
        """A refused change counts as meant for the later ones; ``definition``: None where it is not the writer's any more."""
        now = self.judge_.head.entries.get(table.id)
        if now is None or now.definition is None or not now.definition.primary_key:
            return
        is_of_keys, definition = definition is None, definition or now.definition.of_keys()
        rows, keys = self.rows(table), []
        if not isinstance(change, m.InsertRow):
            keys.append(given_key(definition, change.key))
        if not isinstance(change, m.DeleteRow):
            given = {
                name: value for name, value in change.row.items() if not is_of_keys or fold(name) in definition.by_name
            }
            image = complete_row(definition, given)
            keys.append(key_of(definition, image))
        for key in set(keys):
            self.name(table, key)
            self.mine.add((table.id, key))
            rows.pop(key, None)
        if not isinstance(change, m.DeleteRow):
            rows[keys[-1]] = Row(-9, image, 0, (0, ""))

    def name(self, table: Table, key: str) -> None:
        if (table.id, key) in self.named:
            raise CannotBeError("key twice")
        self.named.add((table.id, key))


class _One:
    def __init__(self, rows: RowJudge, table: Table, change: Any, index: int, policy: str) -> None:
        self.rows, self.table, self.change, self.index, self.policy = rows, table, change, index, policy
        self.definition = table.definition
        self.time_us = rows.now_us if change.row_time_us is None else change.row_time_us
        self.origin = (0, "") if change.origin is None else (change.origin.priority, change.origin.node)

    def settled(self, kind: str, action: str, key: str, at: int) -> None:
        self.rows.settled.add((self.index, kind, action, key, at))

    def not_as_meant(self, image: dict[str, Any] | None, met: str, at: int) -> None:
        """What stands is not what the change wanted: later ones that rely on it conflict with what it met."""
        if (given := self.given()) is not None:
            self.rows.otherwise[self.table.id, given] = at
        for columns in () if image is None else (self.definition.primary_key, *self.definition.unique):
            if (value := canonical_text(self.definition, columns, image)) is not None:
                self.rows.forgone[self.table.id, columns, value] = met, at

    def conflict(self, kind: str, key: str, at: int, table: Table | None = None) -> None:
        where = table or self.table
        self.rows.judge_.found(kind, at, change=self.index, id=where.id, key=key)

    def run(self) -> None:
        change, live = self.change, self.rows.rows(self.table)
        if isinstance(change, m.InsertRow):
            self.insert(complete_row(self.definition, change.row), live)
            return
        key = given_key(self.definition, change.key)
        if isinstance(change, m.DeleteRow):
            self.rows.name(self.table, key)
            self.delete(key, live)
            return
        image = complete_row(self.definition, change.row)
        new_key = key_of(self.definition, image)
        self.rows.name(self.table, key)
        if new_key != key:
            self.rows.name(self.table, new_key)
            self.move(key, new_key, image, live)
        else:
            self.update(key, image, live)

    def hit(self, key: str, image: dict[str, Any], live: dict[str, Row]) -> list[str]:
        """Keys of the live rows that have the image's key or one of its unique values, in the constraints' order."""
        wanted = unique_values(self.definition, image)
        found = [key] if key in live else []
        for number, value in enumerate(wanted):
            holders = [k for k, row in live.items() if unique_values(self.definition, row.image)[number] == value]
            found += [k for k in holders if value is not None and k not in found and k != key]
        return found

    def insert(self, image: dict[str, Any], live: dict[str, Row]) -> None:
        key = key_of(self.definition, image)
        self.rows.name(self.table, key)
        met = self.hit(key, image, live)
        if any(not self.in_the_way(other) for other in met):
            raise CannotBeError("taken")
        if len(met) > 1 or any(not self.rows.raced(self.table, other) for other in met):
            self.parents(image)
            for other in met:
                kind = "MULTIPLE_UNIQUE" if len(met) > 1 else "INSERT_INSERT"
                self.conflict(kind, other, self.rows.last(self.table, other))
            self.assume(key, image, None, live)
        elif met:
            self.settle("INSERT_INSERT", met[0], live.get(met[0]), image, live)
        else:
            self.stand(key, image, None, live)

    def in_the_way(self, key: str) -> bool:
        """Whether a row is not as the writer knew it, nor as the changeset wanted it."""
        return self.rows.raced(self.table, key) or (self.table.id, key) in self.rows.otherwise

    def update(self, key: str, image: dict[str, Any], live: dict[str, Row]) -> None:
        if key in live and not self.rows.raced(self.table, key):
            others = [k for k in self.hit(key, image, live) if k != key and self.rows.raced(self.table, k)]
            if not (others and self.handled("UNIQUE", others[0], live[others[0]], image, live)):
                self.stand(key, image, key, live)
        elif key in live:
            self.settle("UPDATE_UPDATE", key, live[key], image, live)
        elif self.rows.at_base(self.table, key) is not None:
            self.settle("UPDATE_DELETE", key, None, image, live)
        elif self.change.origin is not None:
            self.settle("INSERT_UPDATE", key, None, image, live)
        else:
            raise CannotBeError("missing")

    def move(self, key: str, new_key: str, image: dict[str, Any], live: dict[str, Row]) -> None:
        if new_key in live and not self.rows.raced(self.table, new_key):
            raise CannotBeError("taken")
        if key not in live and self.rows.at_base(self.table, key) is None:
            if self.change.origin is None:
                raise CannotBeError("missing")
            self.settle("INSERT_UPDATE", key, None, image, live)
            return
        differs = [k for k in (key, new_key) if self.differs(k, live)]
        if not differs:
            self.stand(new_key, image, key, live)
            return
        if self.handled("UPDATE_KEY", differs[0], live.get(differs[0]), image, live):
            return
        self.parents(image)
        self.unraced_unique(image, new_key, key, live)
        for each in differs:
            self.conflict("UPDATE_KEY", each, self.rows.last(self.table, each))
        self.holders(image, new_key, key, live)
        self.assume(new_key, image, key, live)

    def differs(self, key: str, live: dict[str, Row]) -> bool:
        return self.rows.raced(self.table, key) if key in live else self.rows.at_base(self.table, key) is not None

    def delete(self, key: str, live: dict[str, Row]) -> None:
        if key in live and not self.rows.raced(self.table, key):
            self.gone(key, live)
        elif key in live:
            self.settle("UPDATE_DELETE", key, live[key], None, live)
        elif self.rows.at_base(self.table, key) is None:
            raise CannotBeError("missing")
        else:
            self.settled("DELETE_DELETE", "SKIPPED", key, self.rows.last(self.table, key))
            self.not_as_meant(None, key, self.rows.last(self.table, key))

    def settle(
        self, kind: str, key: str, committed: Row | None, image: dict[str, Any] | None, live: dict[str, Row]
    ) -> None:
        if self.handled(kind, key, committed, image, live):
            return
        at = self.rows.last(self.table, key)
        if kind == "INSERT_UPDATE":
            at = max(at, self.rows.judge_.base)
        later = committed is not None and (
            image is None
            or self.time_us > committed.time_us
            or (self.time_us == committed.time_us and self.origin <= committed.origin)
        )
        if self.policy == "KEEP_EXISTING" or (self.policy == "LAST_UPDATE_WINS" and not later):
            self.settled(kind, "SKIPPED", key, at)
            self.not_as_meant(image, key, at)
            return
        if self.policy == "LAST_UPDATE_WINS":
            self.settled(kind, "APPLIED", key, at)
        if self.policy != "LAST_UPDATE_WINS" or not self.stands(image, key, live):
            if image is not None:
                self.parents(image)
            if image is not None and kind in ("UPDATE_UPDATE", "UPDATE_DELETE", "INSERT_UPDATE"):
                self.unraced_unique(image, key, key, live)
            self.conflict(kind, key, at)
            if image is not None and self.given() is not None:
                self.holders(image, key, self.given(), live)
            self.assume(None if image is None else key_of(self.definition, image), image, self.given(), live)

    def given(self) -> str | None:
        """The key that the change names."""
        return None if isinstance(self.change, m.InsertRow) else given_key(self.definition, self.change.key)

    def handled(
        self, kind: str, key: str, committed: Row | None, image: dict[str, Any] | None, live: dict[str, Row]
    ) -> bool:
        """Whether a handler settles it; one that fails or answers with another row counts as ABORT."""
        if not self.policy.startswith("handler:"):
            return False
        self.rows.judge_.installed(self.policy)
        handler = self.rows.judge_.oracle.handlers[self.policy.removeprefix("handler:")]
        mine = {self.given(), None if image is None else key_of(self.definition, image)}
        try:
            answer = handler(kind, None if committed is None else committed.image, image)
            answer = None if answer is None else complete_row(self.definition, answer)
        except Exception:
            return False
        if answer is not None and key_of(self.definition, answer) not in mine | ({key} if kind != "UNIQUE" else set()):
            return False
        at = self.rows.last(self.table, key)
        if kind == "INSERT_UPDATE":
            at = max(at, self.rows.judge_.base)
        self.settled(kind, "HANDLED", key, at)
        if answer != image:
            self.not_as_meant(image, key, at)
        replaced = self.given() if kind in ("UPDATE_KEY", "UNIQUE") else key
        return self.stands(answer, replaced, live)

    def stands(self, image: dict[str, Any] | None, replaced: str | None, live: dict[str, Row]) -> bool:
        """Whether what settles a race can stand; if not, it has changed nothing."""
        judge, before, mine = self.rows.judge_, dict(live), set(self.rows.mine)
        reported: list[tuple[Any, dict[str, Any]]] = []
        report, judge.found = judge.found, lambda *args, **fields: reported.append((args, fields))
        try:
            if image is not None:
                self.stand(key_of(self.definition, image), image, replaced if replaced in live else None, live)
            elif replaced is not None and replaced in live:
                self.gone(replaced, live)
        except CannotBeError:
            live.clear()
            live.update(before)
            self.rows.mine = mine
            return False
        finally:
            judge.found = report
        for args, fields in reported:
            report(*args, **fields)
        return True

    def stand(self, key: str, image: dict[str, Any], replaced: str | None, live: dict[str, Row]) -> None:
        self.parents(image)
        self.unraced_unique(image, key, replaced, live)
        if self.holders(image, key, replaced, live):
            self.assume(key, image, replaced, live)
            return
        if replaced != key and key in live:
            self.conflict("UPDATE_KEY", key, self.rows.last(self.table, key))
            return
        old = None if replaced is None else live.pop(replaced)
        live[key] = Row(-9, image, self.time_us, self.origin)
        self.rows.mine |= {(self.table.id, key)} | ({(self.table.id, replaced)} if replaced else set())
        if old is not None and replaced is not None:
            self.children(replaced, old)

    def holders(self, image: dict[str, Any], key: str, replaced: str | None, live: dict[str, Row]) -> list[str]:
        """The other rows that hold one of the image's unique values, each a conflict."""
        others = [other for other in self.hit(key, image, live) if other not in (key, replaced)]
        for other in others:
            self.conflict("UNIQUE", other, self.rows.last(self.table, other))
        return others

    def unraced_unique(self, image: dict[str, Any], key: str, replaced: str | None, live: dict[str, Row]) -> None:
        for other in self.hit(key, image, live):
            if other not in (key, replaced) and not self.in_the_way(other):
                raise CannotBeError("unique value taken")

    def assume(self, key: str | None, image: dict[str, Any] | None, old: str | None, live: dict[str, Row]) -> None:
        ended = None
        if old is not None:
            ended = live.pop(old, None)
            self.rows.mine.add((self.table.id, old))
        if key is not None and image is not None:
            live[key] = Row(-9, image, 0, (0, ""))
            self.rows.mine.add((self.table.id, key))
        if old is not None and ended is not None:
            self.children(old, ended)

    def gone(self, key: str, live: dict[str, Row]) -> None:
        old = live.pop(key)
        self.rows.mine.add((self.table.id, key))
        self.children(key, old)

    # --- foreign keys -------------------------------------------------------------------------------------------------

    def table_of(self, table_id: int) -> Table:
        judge = self.rows.judge_
        return judge.seen.entries.get(table_id) or judge.head.entries[table_id]

    def offers(self, parent: Table, columns: tuple[int, ...], rows: dict[str, Row], value: str) -> str | None:
        return next(
            (k for k, row in rows.items() if canonical_text(parent.definition, columns, row.image) == value), None
        )

    def parents(self, image: dict[str, Any]) -> None:
        judge = self.rows.judge_
        for key in self.definition.foreign_keys:
            value = canonical_text(self.definition, key.column_ids, image)
            if value is None:
                continue
            parent = self.table_of(key.ref_table_id)
            if parent.id == self.table.id and canonical_text(self.definition, key.ref_column_ids, image) == value:
                continue
            if self.offers(parent, key.ref_column_ids, self.rows.rows(parent), value) is not None:
                continue
            then = judge.oracle.worlds[judge.base].entries.get(parent.id)
            was = None if then is None else self.offers(parent, key.ref_column_ids, then.rows, value)
            changed = [at for at, e in judge.since if e.kind == "ROW" and e.id == parent.id]
            if judge.oracle.beyond_window(judge.base) and changed:
                judge.found("TABLE_ROWS_CHANGED", changed[-1], change=self.index, id=parent.id)
            elif (forgone := self.rows.forgone.get((parent.id, key.ref_column_ids, value))) is not None:
                self.conflict("FOREIGN_KEY", *forgone, parent)
            elif was is not None and (parent.id, was) not in self.rows.mine and self.rows.last(parent, was) != NEVER:
                self.conflict("FOREIGN_KEY", was, self.rows.last(parent, was), parent)
            else:
                raise CannotBeError("no parent")

    def children(self, key: str, old: Row) -> None:
        judge = self.rows.judge_
        tables = {**judge.head.entries, **{i: judge.seen.entries[i] for i in judge.mine if i in judge.seen.entries}}
        for child in tables.values():
            if child.definition is None or child.id in judge.dropped:
                continue
            for fk in child.definition.foreign_keys:
                if fk.ref_table_id != self.table.id:
                    continue
                value = canonical_text(self.definition, fk.ref_column_ids, old.image)
                mine = self.rows.rows(self.table)
                if value is None or self.offers(self.table, fk.ref_column_ids, mine, value) is not None:
                    continue
                for child_key, row in self.rows.rows(child).items():
                    if canonical_text(child.definition, fk.column_ids, row.image) == value:
                        self.child(child, child_key, fk, value)

    def child(self, child: Table, child_key: str, fk: Any, value: str) -> None:
        if (at := self.rows.otherwise.get((child.id, child_key))) is not None:
            self.conflict("FOREIGN_KEY", child_key, at, child)
            return
        then = self.rows.at_base(child, child_key)
        referred = then is not None and canonical_text(child.definition, fk.column_ids, then.image) == value
        if self.rows.judge_.oracle.beyond_window(self.rows.judge_.base):
            referred = self.rows.last(child, child_key) == NEVER
        if (child.id, child_key) in self.rows.mine or referred:
            raise CannotBeError("still referred to")
        self.conflict("FOREIGN_KEY", child_key, self.rows.last(child, child_key), child)
