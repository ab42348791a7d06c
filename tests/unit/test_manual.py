"""The manual's printed pages are those of the code."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from commitlog.config import Settings
from commitlog.domain.model import LogSettings
from commitlog.log.codec.framing import schemas_dir
from commitlog.ops.cli.commands_page import commands_page
from commitlog.ops.manual import conflict_page, errors_page, invalid_page
from commitlog.ops.metrics_page import metrics_page
from commitlog.ops.records_page import records_page
from commitlog.ops.settings_page import meanings_for_logs, meanings_for_processes, settings_page

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_what_conflicts_with_what_then_as_the_matrix_prints_it() -> None:
    written = (DOCS / "what-conflicts-with-what.md").read_text()
    assert written == conflict_page(), "print it anew: commitlog manual > docs/what-conflicts-with-what.md"


def test_what_makes_a_change_invalid_then_as_the_codes_print_it() -> None:
    written = (DOCS / "invalid-codes.md").read_text()
    assert written == invalid_page(), "print it anew: commitlog manual invalid > docs/invalid-codes.md"


def test_errors_then_as_they_describe_themselves() -> None:
    written = (DOCS / "errors.md").read_text()
    assert written == errors_page(), "print it anew: commitlog manual errors > docs/errors.md"


def test_records_then_as_the_schemas_declare_them() -> None:
    written = (DOCS / "records.md").read_text()
    assert written == records_page(), "print it anew: commitlog manual records > docs/records.md"


def test_records_then_none_that_a_schema_declares_is_left_out() -> None:
    declared = {path.stem for path in schemas_dir().glob("*.avsc") if path.stem.isidentifier()}
    told = re.findall(r"Schema: `(\w+)\.avsc`", (DOCS / "records.md").read_text(encoding="utf-8"))
    assert sorted(told) == sorted(declared)


def test_metrics_then_as_the_measures_describe_themselves() -> None:
    written = (DOCS / "metrics.md").read_text()
    assert written == metrics_page(), "print it anew: commitlog manual metrics > docs/metrics.md"


def test_settings_then_as_they_describe_themselves() -> None:
    written = (DOCS / "settings.md").read_text()
    assert written == settings_page(), "print it anew: commitlog config reference > docs/settings.md"


def test_settings_when_described_then_none_is_left_out() -> None:
    not_set = {"kafka", "genesis", "sources", "config_file", "machine"}
    assert meanings_for_processes().keys() == {each.name for each in dataclasses.fields(Settings)}
    assert meanings_for_logs().keys() == set(LogSettings.FIELDS)
    rows = settings_page().splitlines()
    for name in (meanings_for_processes().keys() - not_set) | set(LogSettings.FIELDS):
        assert any(row.startswith(f"| `{name}` |") for row in rows), name


def test_commands_then_as_their_help_says() -> None:
    written = (DOCS / "commands.md").read_text()
    assert written == commands_page(), "print it anew: commitlog manual commands > docs/commands.md"
