"""The checkpoint that a sequencer starts from where results were trimmed, made from their archive where there is none.

So a machine that is new, has lost its disk or was away for long begins as any other, and so does a version of other rules,
which starts from no checkpoint that an older one has made.
"""

from __future__ import annotations

import logging
from pathlib import Path

from commitlog.client.outcomes.archive import trimmed_results
from commitlog.config import Settings
from commitlog.domain.state.index import SequencerState
from commitlog.errors import ConfigurationError, LogIntegrityError
from commitlog.log.checkpoint import checkpoint_dir_of, load_checkpoints, write_checkpoint
from commitlog.log.genesis import require_genesis
from commitlog.log.replica import state_with
from commitlog.log.trims import last_trim, position_of

_logger = logging.getLogger("commitlog.serve")


def checkpoint_from_archive(settings: Settings) -> Path:
    """Make the checkpoint that a service needs where all its own are lost, or older than what was trimmed.

    Raises:
        ConfigurationError: nothing was trimmed, so none is needed; or there is no such log.
        LogIntegrityError: the archive does not hold what was trimmed.
    """
    noted = last_trim(settings)
    if noted is None:
        require_genesis(settings)
        raise ConfigurationError(f"no results of {settings.log} were trimmed: the service starts without a checkpoint")
    state: SequencerState | None = None
    for record in trimmed_results(noted):
        state = state_with(state, record)
    assert state is not None
    return write_checkpoint(checkpoint_dir_of(settings), state, position_of(noted), settings.machine)


def ensure_checkpoint(settings: Settings) -> None:
    """Make that checkpoint unless one is here already. Where it cannot be made from here, that is logged: the sequencer of
    another machine may serve, and what else runs here needs none.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    noted = last_trim(settings)
    if noted is None:
        return
    saved = (each.position for each in load_checkpoints(settings))
    if any(each.log_id == noted.log_id and each.seq >= noted.seq for each in saved):
        return
    _logger.info("results before outcome %d were trimmed: making a checkpoint from %s", noted.seq, noted.archive)
    try:
        checkpoint_from_archive(settings)
    except (LogIntegrityError, ConfigurationError, OSError) as error:
        _logger.warning("no sequencer can be started here: %s", error)
