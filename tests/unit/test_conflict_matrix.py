"""The conflict matrix is read strictly: what is missing or unknown in it fails, and never means that both commit."""

from __future__ import annotations

import pytest

from commitlog.domain.deciding import conflict_rules as rules
from commitlog.domain.deciding.conflict_matrix import _TABLE, CONFLICT_MATRIX, read_matrix
from commitlog.domain.model import ChangeKind as K


def test_matrix_then_has_a_rule_for_every_pair() -> None:
    assert set(CONFLICT_MATRIX) == {(proposed, committed) for proposed in K for committed in K}
    assert CONFLICT_MATRIX[K.DELETE, K.COMPACT] is rules.COMPACTIONS
    assert CONFLICT_MATRIX[K.COMPACT, K.DELETE] is rules.DELETES
    assert CONFLICT_MATRIX[K.APPEND, K.APPEND] is rules.NEVER


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ("key   key   key   -     -     -", "key   key   key   -     -", "not every cell"),
        ("key   key   key   -     -     -", "key   key   key   -     -     -     -", "not every cell"),
        ("s.all", "s.any", "not every cell"),
        ("FLUSH ", "FLUSHED ", "rows"),
        ("    APPEND ", "    DELETE ", "rows"),
        ("flush exp", "flush flush", "columns"),
        ("flush exp   conf", "flush exp", "columns"),
        ("flush exp", "flush expire", "columns"),
    ],
)
def test_matrix_when_a_cell_a_row_or_a_column_is_wrong_then_says_so(written: str, instead: str, told: str) -> None:
    assert written in _TABLE
    with pytest.raises(ValueError, match=told):
        read_matrix(_TABLE.replace(written, instead, 1))


def test_matrix_when_columns_stand_in_another_order_then_is_the_same() -> None:
    lines = [line.split() for line in _TABLE.strip().splitlines()]
    turned = "\n".join(" ".join([line[0], *reversed(line[1:])]) for line in lines)
    assert read_matrix(turned) == CONFLICT_MATRIX
