"""Every scenario file gets the answers that it promises, and together they show every cell of the conflict matrix."""

from __future__ import annotations

import pytest
from scenarios import DIRECTORY, Scenario, cells, decide_all, load, rewritten

from commitlog.domain.deciding.conflict_matrix import CONFLICT_MATRIX

FILES = {path.stem: load(path) for path in sorted(DIRECTORY.glob("*.txt"))}
CASES = [(setup, scenario) for setup, *scenarios in FILES.values() for scenario in scenarios]
TITLES = [f"{stem}: {scenario.title}" for stem, (_, *scenarios) in FILES.items() for scenario in scenarios]


@pytest.mark.parametrize("stem", FILES)
def test_a_file_then_its_setup_commits_as_it_says(stem: str) -> None:
    setup, *scenarios = FILES[stem]
    log, answers = decide_all(Scenario(""), setup)
    assert answers == setup.expected
    assert log.head == len(answers)
    assert scenarios


@pytest.mark.parametrize(("setup", "scenario"), CASES, ids=TITLES)
def test_a_scenario_then_the_answers_are_those_of_the_file(setup: Scenario, scenario: Scenario) -> None:
    log, answers = decide_all(setup, scenario)
    assert answers == scenario.expected
    assert answers, "a scenario proposes something"
    log.check_replay()


def test_titles_then_one_scenario_each() -> None:
    assert len(set(TITLES)) == len(TITLES)


def test_the_matrix_then_every_cell_that_can_conflict_is_shown_and_no_other() -> None:
    shown = set().union(*(cells(decide_all(setup, scenario)[0]) for setup, scenario in CASES))
    wanted = {cell for cell, rule in CONFLICT_MATRIX.items() if rule.name != "NEVER"}
    assert sorted(f"{proposed} x {committed}" for proposed, committed in wanted - shown) == []
    assert sorted(f"{proposed} x {committed}" for proposed, committed in shown - wanted) == []


def test_rewriting_then_a_file_with_todays_answers_stays_as_it_is() -> None:
    for path in DIRECTORY.glob("*.txt"):
        assert rewritten(path) == path.read_text()
