"""What conflicts with what: the one table, and the small loop that applies it.

``CONFLICT_MATRIX[(proposed, committed)]`` is the rule by which every pair of change kinds meets. Every cell is written; a row
too short, a kind without a row and a word that is no rule fail at import. The manual's page is printed from it.

Row changes of keyed tables meet by key: the cells say so, the meeting itself is in ``row_conflicts``.
"""

from __future__ import annotations

from collections.abc import Mapping

from commitlog.domain.deciding import conflict_rules as rules
from commitlog.domain.deciding.conflict_rules import Check, Rule
from commitlog.domain.deciding.conflicts import Footprint, Hit
from commitlog.domain.model import ChangeKind
from commitlog.domain.state.index import SequencerState

K = ChangeKind

_TABLE = """
    proposed         +schm -schm +tabl -tabl ren   alter +view =view -view app   del   comp  +row  =row  -row  flush exp   conf
    CREATE_SCHEMA    s.new -     -     -     -     -     -     -     -     -     -     -     -     -     -     -     -     -
    DROP_SCHEMA      -     s.all ent/r held  held  -     entry held  held  -     -     -     -     -     -     -     -     -
    CREATE_TABLE     -     par   name  par   nam/p par   name  -     -     -     -     -     -     -     -     -     -     -
    DROP_TABLE       -     same  ref   same  same  -     -     -     -     -     -     -     -     -     -     -     -     -
    RENAME_TABLE     -     same  name  same  sam/n same  name  -     -     -     -     -     -     -     -     -     -     -
    ALTER_TABLE      -     same  -     same  same  same  -     -     -     cons  -     -     cons  cons  cons  -     -     -
    CREATE_VIEW      -     s.off name  -     name  -     name  -     -     -     -     -     -     -     -     -     -     -
    REPLACE_VIEW     -     same  -     -     -     -     -     same  same  -     -     -     -     -     -     -     -     -
    DROP_VIEW        -     same  -     -     -     -     -     same  same  -     -     -     -     -     -     -     -     -
    APPEND           -     same  -     same  same  def   -     -     -     -     -     -     -     -     -     -     -     -
    DELETE           -     same  -     same  same  def   -     -     -     -     del   comp  -     -     -     -     -     -
    COMPACT          -     same  reuse same  reuse -     reuse -     -     -     del   files -     -     -     -     -     -
    INSERT_ROW       -     same  -     same  same  def   -     -     -     -     -     -     key   key   key   -     -     -
    UPDATE_ROW       -     same  -     same  same  def   -     -     -     -     -     -     key   key   key   -     -     -
    DELETE_ROW       -     same  -     same  same  def   -     -     -     -     -     -     key   key   key   -     -     -
    FLUSH            -     same  -     same  same  same  -     -     -     -     -     -     rows  rows  rows  rows  -     -
    EXPIRE_SNAPSHOTS -     -     -     -     -     -     -     -     -     -     -     -     -     -     -     -     -     -
    CONFIGURE        -     -     -     -     -     -     -     -     -     -     -     -     -     -     -     -     -     -
"""

_COLUMNS: Mapping[str, ChangeKind] = {
    "+schm": K.CREATE_SCHEMA, "-schm": K.DROP_SCHEMA, "+tabl": K.CREATE_TABLE, "-tabl": K.DROP_TABLE,
    "ren": K.RENAME_TABLE, "alter": K.ALTER_TABLE, "+view": K.CREATE_VIEW, "=view": K.REPLACE_VIEW, "-view": K.DROP_VIEW,
    "app": K.APPEND, "del": K.DELETE, "comp": K.COMPACT, "+row": K.INSERT_ROW, "=row": K.UPDATE_ROW, "-row": K.DELETE_ROW,
    "flush": K.FLUSH, "exp": K.EXPIRE_SNAPSHOTS, "conf": K.CONFIGURE,
}  # fmt: skip
_RULES: Mapping[str, Rule] = {
    "-": rules.NEVER, "s.new": rules.SCHEMA_NAME, "s.off": rules.SCHEMA_DROPPED, "s.all": rules.SCHEMA_OR_CONTAINED,
    "held": rules.CONTAINED, "entry": rules.ENTRY_CREATED, "ent/r": rules.ENTRY_OR_REFERENCE, "ref": rules.REFERENCED,
    "name": rules.NAME, "nam/p": rules.NAME_OR_PARENT, "par": rules.PARENT, "same": rules.SAME, "sam/n": rules.SAME_OR_NAME,
    "def": rules.DEFINITION, "cons": rules.CONSTRAINED, "del": rules.DELETES, "comp": rules.COMPACTIONS,
    "files": rules.SAME_FILES, "reuse": rules.NAME_REUSED, "key": rules.BY_KEY, "rows": rules.FLUSHED_ROWS,
}  # fmt: skip


def read_matrix(table: str) -> dict[tuple[ChangeKind, ChangeKind], Rule]:
    """The rule of every pair of kinds, proposed first, from a table with a column and a row for each kind.

    Raises:
        ValueError: a row, a column or a cell is missing, is there twice, or is not known.
    """
    heading, *rows = (line.split() for line in table.strip().splitlines())
    committed = [_COLUMNS.get(word) for word in heading[1:]]
    if sorted(map(str, committed)) != sorted(map(str, K)):
        raise ValueError(f"the columns of the conflict matrix are not the kinds of change: {' '.join(heading)}")
    if sorted(row[0] for row in rows) != sorted(K):
        raise ValueError("the rows of the conflict matrix are not the kinds of change")
    cells: dict[tuple[ChangeKind, ChangeKind], Rule] = {}
    for proposed, *words in rows:
        if len(words) != len(committed) or not _RULES.keys() >= set(words):
            raise ValueError(f"not every cell of the conflict matrix is a rule: {proposed} {' '.join(words)}")
        cells |= {(K(proposed), kind): _RULES[word] for kind, word in zip(committed, words, strict=True) if kind}
    return cells


CONFLICT_MATRIX: Mapping[tuple[ChangeKind, ChangeKind], Rule] = read_matrix(_TABLE)
"""Every pair of kinds, proposed first: the rule by which they meet."""

RULES_OF: Mapping[ChangeKind, tuple[tuple[ChangeKind, Check], ...]] = {
    proposed: tuple(
        (committed, rule.check) for committed in K if (rule := CONFLICT_MATRIX[proposed, committed]).check is not None
    )
    for proposed in K
}


def check_footprint(state: SequencerState, footprint: Footprint, base_snapshot_id: int) -> list[Hit]:
    """Everything committed since the base that the proposed change cannot live with."""
    hits: list[Hit] = []
    for committed, check in RULES_OF[footprint.kind]:
        if found := check(state, footprint, base_snapshot_id, committed):
            hits.extend(found)
    return hits
