"""`commitlog serve`: a log and its catalog made where they are missing, and the processes of the service kept running.

It is for a machine or container that has nothing but this package: the processes write their logs where this one writes
its own. (`commitlog up` runs the same beside an embedded broker and PostgreSQL, with a log file each.)
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from commitlog.config import Settings
from commitlog.errors import CatalogMismatchError, ConfigurationError
from commitlog.ops.service.keep_trying import keep_trying, stopped_by_signal
from commitlog.ops.service.links import link_services
from commitlog.ops.service.supervisor import CARRIER, POLL_S, RELAY, Service, Supervisor, installed_services
from commitlog.ops.service.watched import told_about
from commitlog.ops.service.whole import WatchedWhole

DATABASE_TIMEOUT_S = 60.0

_logger = logging.getLogger("commitlog.serve")


def prepare(settings: Settings, *, standby: bool = False) -> None:
    """Create the log, the marker of its data path and its catalog where they are missing, bring an older catalog up to
    this version.

    Args:
        settings: which log, and where.
        standby: leave to an older catalog what its service needs, which still runs; the projector does the rest at its turn.

    Raises:
        ConfigurationError: a topic or a first setting is wrong, or the data path is another log's.
        LogUnavailableError, CatalogUnavailableError: a server does not answer, or another service makes the catalog now.
        CatalogMismatchError: the database holds another catalog, as that of another log.
        LogIntegrityError: the catalog is missing, and the archive of what was trimmed is not seen from here.
    """
    from commitlog.catalog.connecting import connect, told_plainly
    from commitlog.catalog.guard import install_guard, mark_projector
    from commitlog.catalog.migrations import check_database, migrate
    from commitlog.client.files.lake import claim
    from commitlog.log.genesis import init_log

    check_places(settings)
    genesis = init_log(settings)
    settings = replace(settings, data_path=genesis.data_path or settings.data_path)
    claim(settings.data_path, genesis.log_id, settings.log)
    is_new = not check_database(settings, genesis.log_id, timeout_s=DATABASE_TIMEOUT_S)
    if is_new:
        _make_catalog(settings)
    with told_plainly(settings.database_url), connect(settings.database_url) as connection:
        if is_new:
            install_guard(connection)
        else:
            mark_projector(connection)
            migrate(connection, only_pre=standby)


def _make_catalog(settings: Settings) -> None:
    """Make the catalog from the log, and from its archive what was trimmed."""
    from commitlog.catalog.projector import Projector
    from commitlog.catalog.rebuild import Rebuild
    from commitlog.client.outcomes.archive import trimmed_results
    from commitlog.log.codec import decode_statistics
    from commitlog.log.trims import last_trim

    noted = last_trim(settings)
    if noted is None:
        Projector(settings, decode_statistics=decode_statistics).project_to_end()
    else:
        Rebuild(settings, decode_statistics=decode_statistics, archived=partial(trimmed_results, noted)).run()


def check_places(settings: Settings) -> None:
    """See that a log that is not there yet would take nobody's data path and nobody's database.

    Raises:
        ConfigurationError: the path is another log's.
        CatalogMismatchError: the database holds another log's catalog.
        LogUnavailableError, CatalogUnavailableError: a server does not answer.
    """
    from commitlog.catalog.migrations import check_database
    from commitlog.client.files.lake import check_free
    from commitlog.log.genesis import find_genesis

    if find_genesis(settings) is not None:
        return
    try:
        check_free(settings.data_path, settings.log)
        check_database(settings, None, timeout_s=DATABASE_TIMEOUT_S)
    except (ConfigurationError, CatalogMismatchError):
        # Another service may have made the log meanwhile, and its catalog, and marked the path as its.
        if find_genesis(settings) is None:
            raise


def wanted_services(settings: Settings, *, standby: bool = False) -> tuple[Service, ...]:
    """Those that are installed, and those that the settings ask for: a relay by `registry_url`, a link by `links_from`, a
    carrier unless `carrier_socket` is off.

    Raises:
        ConfigurationError: one cannot run, for what it needs is not installed or not said.
    """
    if settings.registry_url is not None and find_spec("httpx2") is None:
        source = settings.sources["registry_url"]
        raise ConfigurationError(f"registry_url ({source}) asks for a relay: pip install 'commitlog[registry]'")
    relay = () if settings.registry_url is None else (RELAY,)
    carrier = () if settings.carrier_socket is None else (CARRIER,)
    return (*installed_services(standby=standby), *carrier, *relay, *link_services(settings))


def prepare_machine(settings: Settings, *, standby: bool = False) -> None:
    """Make what the log lacks, and what its services need on this machine."""
    from commitlog.ops.service.archived_start import ensure_checkpoint

    prepare(settings, standby=standby)
    ensure_checkpoint(settings)


def serve(settings: Settings, *, standby: bool = False) -> int:
    """Run the service until Ctrl-C or SIGTERM; the exit code.

    Args:
        settings: which log, and where.
        standby: another machine serves; take over when it ends.
    """
    whole = WatchedWhole(settings)

    def say(line: str) -> None:
        whole.waits_for = line
        _logger.warning(line)

    with stopped_by_signal() as stop, told_about(settings, whole):
        keep_trying("serve", lambda: prepare_machine(settings, standby=standby), stop=stop, say=say)
        services = wanted_services(settings, standby=standby)
        supervisor = Supervisor(services, settings.environment(), say=_logger.warning)
        whole.supervisor = supervisor
        try:
            while not stop.is_set():
                supervisor.check()
                stop.wait(POLL_S)
        finally:
            supervisor.stop()
    return 0
