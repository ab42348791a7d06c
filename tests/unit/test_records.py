"""The generated records: what the schemas say, frozen in use, equal by their fields."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

from commitlog.domain import model as m
from commitlog.domain.model.defining import define

GENERATOR = Path(__file__).resolve().parents[2] / "schemas" / "generator"


def test_modules_when_generated_again_then_are_those_that_are_here() -> None:
    run = subprocess.run([sys.executable, GENERATOR, "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_records_when_their_fields_are_equal_then_so_are_they() -> None:
    file = m.DataFile("a", 1, 2)
    assert file == m.DataFile("a", 1, 2)
    assert hash(file) == hash(m.DataFile("a", 1, 2))
    assert file != m.DataFile("a", 1, 3)
    assert m.TableRead("s", "t") != m.DropTable("s", "t")
    assert file != "a"


def test_outcomes_when_only_their_bytes_differ_then_are_equal() -> None:
    outcome = m.Outcome(1, 1, m.Position(0, 0), 5, m.Verdict.COMMITTED, 1, b"I" * 16, "w")
    assert outcome == outcome.replace(proposal_bytes=b"x")
    assert hash(outcome) == hash(outcome.replace(proposal_bytes=b"x"))
    assert outcome != outcome.replace(seq=2)


def test_record_when_shown_then_as_it_is_made() -> None:
    assert repr(m.DropTable("s", "t")) == "DropTable(schema='s', table='t', if_exists=False)"
    assert "proposal_bytes" not in repr(m.Outcome(1, 1, m.Position(0, 0), 5, m.Verdict.COMMITTED, 1, None, None))


def test_record_when_copied_or_pickled_then_is_the_same() -> None:
    proposal = m.Proposal(b"I" * 16, "w", 0, (m.Append("s", "t", (m.DataFile("p", 1, 2),)),))
    assert copy.deepcopy(proposal) == proposal
    assert pickle.loads(pickle.dumps(proposal)) == proposal


def test_rules_version_when_a_schema_has_a_default_then_it_is_ours() -> None:
    outcome = m.Outcome(1, 1, m.Position(0, 0), 5, m.Verdict.COMMITTED, 1, None, None)
    assert outcome.rules_version == m.Genesis(b"L" * 16).rules_version == m.RULES_VERSION


def test_definition_when_copied_or_pickled_then_is_the_same() -> None:
    columns = (m.ColumnSpec("a", "int64"), m.ColumnSpec("b", "struct(x int32)"))
    made = define(m.CreateTable("s", "t", columns, primary_key=("a",)), table_id=1, schema_id=0, partition_id=None)
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made
