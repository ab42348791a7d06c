"""Which rows stand at a site once a proposal's changes are made: what is held back, and what stands after all (rules.md 6).

Of a proposal that a link brings, all its rows are looked at together with those that they meet, and so are those that were held
back and met them. Of an own one, those that were held back. Two steps, so that the answer is one and the same at every site:
``state.claims`` says who gets the UNIQUE values that several ask for; of these rows as many stand as have their parents.
"""

from __future__ import annotations

from collections.abc import Iterator

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Hit, object_of
from commitlog.domain.deciding.plan import Arriving, Plan
from commitlog.domain.deciding.row_overlay import OWN
from commitlog.domain.model.row_images import altered_row
from commitlog.domain.state.claims import Claim, Claims, Place
from commitlog.domain.state.index import TableState
from commitlog.domain.state.row_keys import provided_value, shown_key
from commitlog.domain.state.rows import KeyedRows, RowVersion
from commitlog.domain.state.sites import SITES, made_at

_RESOLUTION_BYTES, _VALUE_BYTES = 100, 10
"""Of a resolution, and of each value in it, beside what they name: rather too many."""


def settle_arrivals(plan: Plan) -> None:
    """Find out which of the rows that came stand, and which others do no longer or do after all."""
    if not plan.arriving:
        return
    causes = {each.place: each.change for each in plan.arriving}
    standing = _Standing(plan, causes)
    for each in plan.arriving:
        standing.claims.renew(each.place, each.claim)
    others = [place for place in standing.settle() if place not in causes]
    for each in plan.arriving:  # In the order of the changes, as ids are given.
        plan.effects[each.change] = standing.arrive(each)
    for place in others:
        standing.move(place)
    _check_told(plan)


def settle_own(plan: Plan) -> None:
    """Find out what an own proposal does to rows that are held back; it cannot have its own rows held back."""
    state, changed = plan.state, plan.rows.changed()
    if state.node is None or not any(
        _meets_held(plan, table_id) for table_id in dict.fromkeys(each[0] for each in changed)
    ):
        return
    standing = _Standing(plan, {})
    for place in changed:
        version = plan.rows.live(plan.names.table_of_id(place[0]), place[1])
        origin = None if version is None else made_at(state.node, state.head_snapshot_id + 1, version.time_us)
        standing.claims.renew(place, None if version is None or origin is None else Claim(version, origin))
    for place in standing.settle():
        if standing.claims.is_fresh(place):
            standing.check_own(place)
        else:
            standing.move(place)
    _check_told(plan)


def _check_told(plan: Plan) -> None:
    """What becomes of other rows is told with their images, which replay needs: no more than an outcome has room for."""
    bytes_max = plan.state.settings.proposal_bytes_max
    told = [each for each in plan.resolutions if each.policy == SITES]
    if sum(_told_bytes(each) for each in told) > bytes_max:
        where = told[-1].object
        detail = (
            f"which is one of {len(told)} rows that would be held back or stand after all, more than one outcome tells: change "
            "some of them, or what they refer to, in smaller parts first"
        )
        hit = Hit(told[-1].kind, plan.state.head_snapshot_id, where, detail)
        plan.row_hits.append((told[-1].change, hit))


def _told_bytes(told: m.Resolution) -> int:
    """About how much of an outcome it takes, without what is only there to be looked at."""
    where = told.object
    names = (where.schema, where.table, where.row_key, told.committed_writer_id)
    image = () if told.row is None else told.row.items()
    return (
        _RESOLUTION_BYTES
        + sum(len(name or "") for name in names)
        + sum(len(name) + len(str(value)) + _VALUE_BYTES for name, value in image)
    )


def _meets_held(plan: Plan, table_id: int) -> bool:
    """Whether rows of a table, or rows that refer to it, are held back."""
    table = plan.names.table_of_id(table_id)
    tables = [table, *(child for child, _ in plan.names.referrers(table))]
    return any(each.rows is not None and each.rows.held for each in tables)


class _Standing:
    """The rows that a proposal touches on their way to where they stand; ``causes``: the change of each that came."""

    def __init__(self, plan: Plan, causes: dict[Place, int]) -> None:
        assert plan.state.node is not None
        self.plan = plan
        self.rows = plan.rows
        self.causes = causes
        self.before = Claims(plan.state.node, plan.names.table_of_id)
        self.claims = Claims(plan.state.node, plan.names.table_of_id)

    def table(self, place: Place) -> tuple[TableState, KeyedRows]:
        """The table of a row."""
        table = self.plan.names.table_of_id(place[0])
        assert table.rows is not None
        return table, table.rows

    def settle(self) -> list[Place]:
        """Overlay what stands; every row that may be another than at the head, those of one table in order of their keys."""
        touched = self.claims.settle()
        hopeful = self._hopeful(touched)
        for place in touched:
            if place not in hopeful:
                self._put(place, None)
        for place in hopeful:
            claim = self.claims.of(place)
            assert claim is not None
            self._put(place, claim.version)
        return sorted({*touched, *hopeful, *self._fall(touched, hopeful)})

    def _put(self, place: Place, version: RowVersion | None) -> None:
        table, key = self.plan.names.table_of_id(place[0]), place[1]
        if self.rows.live(table, key) is not version:
            self.rows.put(table, key, version)

    def _hopeful(self, touched: set[Place]) -> dict[Place, None]:
        """The winners among them, and those that are held back and refer to these, or to these again."""
        hopeful: dict[Place, None] = {}
        waiting = sorted(place for place in touched if self.claims.of(place) is not None and self.claims.wins(place))
        while waiting:
            place = waiting.pop()
            if place in hopeful:
                continue
            hopeful[place] = None
            claim = self.claims.of(place)
            assert claim is not None
            for child, number, value in self._offers(place, claim.version):
                assert child.rows is not None
                for key in child.rows.held_referring[number].get(value, ()):
                    other = child.table_id, key
                    if not self.claims.is_fresh(other) and self.claims.wins(other):
                        waiting.append(other)
        return hopeful

    def _fall(self, touched: set[Place], hopeful: dict[Place, None]) -> set[Place]:
        """Take away what has lost its parents, and what refers to that in turn."""
        fallen: set[Place] = set()
        waiting = list(hopeful)
        for place in touched:
            _, rows = self.table(place)
            if (before := rows.live.get(place[1])) is not None:
                waiting += self._orphans(place, before)
        while waiting:
            place = waiting.pop()
            table, _ = self.table(place)
            version = self.rows.live(table, place[1])
            if version is not None and self._missing(table, version) is not None:
                self.rows.put(table, place[1], None)
                fallen.add(place)
                waiting += self._orphans(place, version)
        return fallen

    def _offers(self, place: Place, version: RowVersion) -> Iterator[tuple[TableState, int, str]]:
        """What others can refer to in a row: their table, the number of its foreign key, the value."""
        table, _ = self.table(place)
        for child, number in self.plan.names.referrers(table):
            columns = child.definition.foreign_keys[number].ref_column_ids
            value = provided_value(table.definition, columns, place[1], version.unique)
            if value is not None:
                yield child, number, value

    def _orphans(self, place: Place, gone: RowVersion) -> list[Place]:
        """What refers to a row that stood, and to nothing now."""
        table, _ = self.table(place)
        return [
            (child.table_id, key)
            for child, number, value in self._offers(place, gone)
            if self.rows.provider(table, child.definition.foreign_keys[number].ref_column_ids, value) is None
            for key in self.rows.referring(child, number, value)
        ]

    def _missing(self, table: TableState, version: RowVersion) -> tuple[TableState, str] | None:
        """The first parent that a row refers to and that does not stand."""
        for foreign, value in zip(table.definition.foreign_keys, version.references, strict=True):
            if value is not None:
                parent = self.plan.names.table_of_id(foreign.ref_table_id)
                if self.rows.provider(parent, foreign.ref_column_ids, value) is None:
                    return parent, value
        return None

    # --- what is told -------------------------------------------------------------------------------------------------

    def arrive(self, arriving: Arriving) -> m.Effect:
        """The effect of a row change that came, and what is told of it."""
        place = arriving.place
        table, rows = self.table(place)
        key, claim, before = place[1], self.claims.of(place), rows.live.get(place[1])
        ended = None if before is None else before.row_id
        if claim is None or self.rows.live(table, key) is not None:
            if key in rows.held:
                self._tell(m.ResolutionAction.RELEASED, place)
            if claim is None:
                return m.Effect(table.table_id, ended_row_id=ended)
            row_id = self.plan.ids.row(table, arriving.id_told_at) if ended is None else ended
            self.plan.ids.inlined_rows(table)
            return m.Effect(table.table_id, ended_row_id=ended, row_id=row_id)
        self._tell(m.ResolutionAction.HELD, place, proposed=claim.version.image)
        return m.Effect(table.table_id, ended_row_id=ended)

    def move(self, place: Place) -> None:
        """Tell of a row that nobody changed, if it stands no longer, or after all; with its table it goes in any case."""
        table, rows = self.table(place)
        if self.plan.names.is_dropped(table):
            return
        before, held = rows.live.get(place[1]), rows.held.get(place[1])
        stands = self.rows.live(table, place[1]) is not None
        if before is not None and not stands:
            image = before.image or self._displaced(place)
            if image is None:
                where = object_of(table, row_key=shown_key(place[1]))
                detail = (
                    "whose values have left the window, and which a row that is held back would take the place of: update it "
                    "to what it is first, then do this again"
                )
                hit = Hit(m.ConflictKind.UNIQUE, before.snapshot_id, where, detail)
                self.plan.row_hits.append((self._cause(place), hit))
            self._tell(m.ResolutionAction.HELD, place, row=image, ended_row_id=before.row_id)
        elif held is not None and stands:
            assert held.image is not None
            # It stands again only once the changeset has altered its table.
            image = altered_row(table.definition, self.plan.names.newest_definition(table), held.image)
            row_id = self.plan.ids.rows(table, 1)
            self.plan.ids.inlined_rows(table)
            self._tell(m.ResolutionAction.RELEASED, place, row=image, row_id=row_id)

    def _displaced(self, place: Place) -> m.Row | None:
        """A row whose values have left the window, as a link has read it."""
        arrival, (table, rows) = self.plan.arrival, self.table(place)
        return None if arrival is None else arrival.displaced(table.definition, rows, place[1])

    def check_own(self, place: Place) -> None:
        """A row that the proposal itself makes must stand."""
        table, rows = self.table(place)
        if self.claims.of(place) is not None and self.rows.live(table, place[1]) is None:
            kind, takers = self.claims.why_held(place)
            for other in takers or [place]:
                where = object_of(table, row_key=shown_key(other[1]))
                detail = (
                    "which is held back, and comes first"
                    if takers
                    else "whose parent gives way to a row that is held back"
                )
                self.plan.row_hits.append((0, Hit(kind, self.plan.state.head_snapshot_id, where, detail)))
        elif place[1] in rows.held:
            self._tell(m.ResolutionAction.RELEASED, place)

    def _cause(self, place: Place) -> int:
        """The change that a row met; the first one where it met none of them itself."""
        return next((self.causes[met] for met in self.claims.why_held(place)[1] if met in self.causes), 0)

    def _tell(
        self,
        action: m.ResolutionAction,
        place: Place,
        *,
        proposed: m.Row | None = None,
        row: m.Row | None = None,
        ended_row_id: int | None = None,
        row_id: int | None = None,
    ) -> None:
        table, _ = self.table(place)
        claims = self.claims if action is m.ResolutionAction.HELD else self.before
        kind, met = claims.why_held(place)
        other = None if not met else claims.of(met[0])
        at = 0 if other is None or other.version.snapshot_id == OWN else other.version.snapshot_id
        commit = self.plan.state.commits.get(at)
        self.plan.resolutions.append(
            m.Resolution(
                change=self.causes.get(place, self._cause(place)),
                kind=kind,
                action=action,
                policy=SITES,
                object=object_of(table, row_key=shown_key(place[1])),
                committed_snapshot_id=at,
                committed_proposal_id=None if commit is None else commit.proposal_id,
                committed_writer_id=None if commit is None else commit.writer_id,
                committed_row=None if other is None else other.version.image,
                proposed_row=row if proposed is None else proposed,
                row=row,
                ended_row_id=ended_row_id,
                row_id=row_id,
            )
        )
