"""Files that only this user may read are there whole, or as they were."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from commitlog.local.broker_access import BrokerAccess
from commitlog.local.passwords import write_private


def test_private_file_when_its_disk_is_full_then_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    path, never = tmp_path / "password", tmp_path / "other"
    write_private(path, "first")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("first", 0o600)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", is_full)
        for each in (path, never):
            with pytest.raises(OSError, match="full"):
                write_private(each, "second")
    assert path.read_text() == "first"
    assert not never.exists(), "who finds it there takes it for a password"
    write_private(path, "second")
    assert path.read_text() == "second"


def test_password_of_the_broker_when_its_data_was_lost_then_is_the_one_that_its_clients_have(tmp_path: Path) -> None:
    access = BrokerAccess(tmp_path)
    access.make()
    known = access.client_options()
    arguments = Path(access.make()).read_text(encoding="ascii")
    assert access.client_options() == known
    assert f"password={known['sasl.password']}]" in arguments
