"""What doctor says of row handlers that a log asks for and this machine does not have."""

from __future__ import annotations

from deciding import DecidedLog, change, keyed_table

from commitlog.ops.maintenance.doctor import missing_handlers


def test_doctor_when_handlers_are_asked_for_and_not_installed_then_names_each_with_who_asks() -> None:
    log = DecidedLog()
    log.handlers |= {name: lambda _, committed, proposed: proposed for name in ("merge", "other")}
    log.commit(keyed_table("k", on_conflict="handler:merge"), keyed_table("plain", on_conflict="KEEP_EXISTING"))
    log.commit(keyed_table("gone", on_conflict="handler:other"))
    log.commit({"kind": "CONFIGURE", "settings": {"on_conflict": "handler:merge"}})
    log.commit(change("DROP_TABLE", "gone"))
    assert list(missing_handlers(log.state, log.handlers)) == []
    [found] = missing_handlers(log.state, {"other"})
    assert found.what == "the row handler merge is not installed on this machine: the log's on_conflict, table main.k"
    assert found.is_note
