"""Checkpoints: the sequencer's state at a place in the log, so that a start need not replay everything.

A checkpoint is a cache. It is an Avro container file of plain values, named by log, seq, rules version and its own
SHA-256; written aside, synced and renamed. One that is broken, or does not fit the results topic, is skipped. They are
made by a process of their own that replays along, and that then trims the proposals which have been decided. It stays
behind at the last outcome that is known to be told: whoever starts from a checkpoint must read the others, to tell them,
and may need their proposals for the dead letters.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, NamedTuple

from confluent_kafka import KafkaException, TopicPartition

from commitlog.config import Settings
from commitlog.domain.model import RULES_VERSION
from commitlog.domain.state.dumping import dump_state, load_state
from commitlog.domain.state.index import SequencerState
from commitlog.errors import HistoryUnavailableError, LogIntegrityError, LogLossError
from commitlog.log.codec.container import read_sections, read_told, write_sections
from commitlog.log.connection import REQUEST_TIMEOUT_S, first_offsets, make_admin
from commitlog.log.replica import Replica, SavedState
from commitlog.log.results import LogPosition, ResultsReader
from commitlog.log.topics import topics_of
from commitlog.machine import THIS_MACHINE, Machine

CHECKPOINTS_KEPT = 3
EVERY_OUTCOMES = 50_000
EVERY_S = 60.0
FAILED_PAUSE_S = 10.0
SUFFIX = ".avro"
FORM = "4"
"""Of the plain values; a checkpoint of another form is skipped."""
_UNFINISHED = ".writing"
_DIGEST_DIGITS = 32

_logger = logging.getLogger("commitlog.checkpointer")


class CheckpointName(NamedTuple):
    """What a checkpoint's file name says."""

    log_id: bytes
    seq: int
    rules_version: int
    digest: str

    def file_name(self) -> str:
        """The name, which sorts by seq within a log."""
        return f"{self.log_id.hex()}-{self.seq:020d}-r{self.rules_version}-{self.digest}{SUFFIX}"

    @classmethod
    def parse(cls, path: Path) -> CheckpointName | None:
        """The parts of a file's name; None when it is no checkpoint."""
        parts = path.name.removesuffix(SUFFIX).split("-")
        if path.suffix != SUFFIX or len(parts) != 4 or not parts[1].isdigit() or not parts[2][1:].isdigit():
            return None
        try:
            return cls(bytes.fromhex(parts[0]), int(parts[1]), int(parts[2][1:]), parts[3])
        except ValueError:
            return None


# --- files ------------------------------------------------------------------------------------------------------------


def write_checkpoint(
    directory: Path, state: SequencerState, position: LogPosition, machine: Machine = THIS_MACHINE
) -> Path:
    """Writes a checkpoint and removes those that are too many; it stays itself, for newer ones may be of no use."""
    assert position.seq + 1 == state.next_seq, (position.seq, state.next_seq)
    directory.mkdir(parents=True, exist_ok=True)
    _remove_unfinished(directory)
    aside = directory / f"{_unfinished_here()}{os.getpid()}{_UNFINISHED}"
    try:
        digest = _write_synced(aside, state, position, machine)
        name = CheckpointName(position.log_id, position.seq, RULES_VERSION, digest)
        path = directory / name.file_name()
        aside.replace(path)
    except BaseException:
        # On a disk that is full it would take the room that the next one needs.
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    _sync_directory(directory, machine)
    for _, older in _checkpoint_files(directory, position.log_id)[CHECKPOINTS_KEPT:]:
        if older != path:
            older.unlink(missing_ok=True)
    return path


def _write_synced(path: Path, state: SequencerState, position: LogPosition, machine: Machine) -> str:
    """Writes a file to the disk; the digest of its content."""
    with path.open("wb") as file:
        hashing = _Hashing(file)
        metadata = {
            "commitlog.form": FORM,
            "commitlog.log_id": position.log_id.hex(),
            "commitlog.seq": str(position.seq),
            "commitlog.epoch": str(position.epoch),
            "commitlog.hash": position.hash.hex(),
            "commitlog.results_offset": str(position.results_offset),
        }
        write_sections(hashing, dump_state(state), metadata, machine.unique())
        file.flush()
        machine.sync(file.fileno())
    return hashing.digest()


def _unfinished_here() -> str:
    """How the names of files begin that processes of this machine are writing: others may share the directory."""
    return f".{socket.gethostname()}-"


def _remove_unfinished(directory: Path) -> None:
    """Removes what processes of this machine were writing when they were killed."""
    here = _unfinished_here()
    for path in directory.glob(f"{here}*{_UNFINISHED}"):
        pid = path.name.removeprefix(here).removesuffix(_UNFINISHED)
        if pid.isdigit() and not _is_alive(int(pid)):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class _Hashing:
    """A file that hashes what it is given."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def digest(self) -> str:
        return self._hash.hexdigest()[:_DIGEST_DIGITS]


def _sync_directory(directory: Path, machine: Machine) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        machine.sync(descriptor)
    finally:
        os.close(descriptor)


def _checkpoint_files(directory: Path, log_id: bytes | None = None) -> list[tuple[CheckpointName, Path]]:
    """Newest first."""
    named = [(CheckpointName.parse(path), path) for path in directory.glob(f"*{SUFFIX}")]
    known = [(name, path) for name, path in named if name is not None and log_id in (None, name.log_id)]
    return sorted(known, key=lambda pair: (pair[0].seq, pair[0].digest), reverse=True)


def forget_checkpoints(settings: Settings, log_id: bytes, *, after_seq: int) -> None:
    """Removes the checkpoints of a log behind an outcome, which it does not have any more."""
    for name, path in _checkpoint_files(checkpoint_dir_of(settings), log_id):
        if name.seq > after_seq:
            path.unlink(missing_ok=True)


def checkpoint_dir_of(settings: Settings) -> Path:
    """Where a log's checkpoints are."""
    return settings.checkpoint_dir / settings.log


def load_checkpoints(settings: Settings) -> Iterator[SavedState]:
    """The log's checkpoints, newest first; a broken one is skipped, the state is only read when it is asked for.

    Loading raises LogIntegrityError where it was removed, or broke, in between.
    """
    for name, path in _checkpoint_files(checkpoint_dir_of(settings)):
        if name.rules_version != RULES_VERSION:
            _logger.info("checkpoint %s was made under other rules; skipping it", path.name)
            continue
        try:
            saved = _open_checkpoint(path, name)
        except Exception as error:  # a cache: whatever is wrong with it, there is another way
            _logger.warning("checkpoint %s is damaged; skipping it: %s", path.name, error)
            continue
        yield saved


def newest_seq(settings: Settings) -> int:
    """The outcome of the newest checkpoint that can be read and fits the log; -1 without any."""
    for saved in load_checkpoints(settings):
        with suppress(LogIntegrityError), ResultsReader(settings, after=saved.position):
            saved.load()
            return saved.position.seq
    return -1


def state_after(settings: Settings, seq: int, *, outcomes_max: int) -> SequencerState:
    """The state as it was after one outcome that the log holds (0: the genesis), from the nearest checkpoint before it.

    Raises:
        HistoryUnavailableError: more than ``outcomes_max`` outcomes would have to be replayed, or the first are gone.
    """
    saved_seqs = [name.seq for name, _ in _checkpoint_files(checkpoint_dir_of(settings))]
    start = max((saved for saved in saved_seqs if saved <= seq), default=0)
    if seq - start > outcomes_max:
        raise HistoryUnavailableError(
            f"{seq - start:,} outcomes would have to be replayed, which is more than {outcomes_max:,}"
        )
    fitting = (saved for saved in load_checkpoints(settings) if saved.position.seq <= seq)
    try:
        with closing(Replica(settings, checkpoints=fitting)) as replica:
            replica.follow_through(seq)
            return replica.state
    except LogLossError as error:
        raise HistoryUnavailableError(f"the log does not go back so far: {error}") from None


def _open_checkpoint(path: Path, name: CheckpointName) -> SavedState:
    _check_digest(path, name)
    told = read_told(path)
    if told.get("commitlog.form") != FORM:
        raise ValueError("another version of commitlog has written it")
    position = LogPosition(
        bytes.fromhex(told["commitlog.log_id"]),
        int(told["commitlog.seq"]),
        int(told["commitlog.epoch"]),
        bytes.fromhex(told["commitlog.hash"]),
        int(told["commitlog.results_offset"]),
    )
    return SavedState(position, lambda: _loaded(path, name))


def _check_digest(path: Path, name: CheckpointName) -> None:
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest()[:_DIGEST_DIGITS] != name.digest:
            raise ValueError("its content is not what its name says")


def _loaded(path: Path, name: CheckpointName) -> SequencerState:
    """The state in a checkpoint that was whole a moment ago; LogIntegrityError when it is gone or broken now."""
    try:
        _check_digest(path, name)
        return load_state(read_sections(path))
    except Exception as error:
        raise LogIntegrityError(f"{path.name} cannot be loaded any more: {error}") from error


# --- the process ------------------------------------------------------------------------------------------------------


class Checkpointer:
    """Replays along, saves the state from time to time, and trims the proposals that were decided before.

    Args:
        settings: which log, where, and the directory of the checkpoints.
        every_outcomes: write one after so many outcomes,
        every_s: or after so many seconds, if there were any.

    Attributes:
        saved_seq: the last outcome in the newest checkpoint; that which it has begun with, before it has written one.
        problem: why the newest could not be written; None when it was.
    """

    def __init__(self, settings: Settings, *, every_outcomes: int = EVERY_OUTCOMES, every_s: float = EVERY_S) -> None:
        self._settings = settings
        self._directory = checkpoint_dir_of(settings)
        self._every_outcomes = every_outcomes
        self._every_s = every_s
        self._replica = Replica(settings, checkpoints=load_checkpoints(settings), on_skipped=_skipped, told_only=True)
        self.saved_seq = self._replica.start_seq
        self._written_at = self._settings.machine.now_s()
        self._due_after_s = 0.0
        self.problem: str | None = None

    @property
    def replayed_seq(self) -> int:
        """The last outcome that it has replayed; 0 before there is one."""
        return self._replica.position.seq if self._replica.has_genesis else 0

    def run(self, stop: threading.Event) -> None:
        """Works until the event is set. A disk that is full is waited for, and nothing is trimmed meanwhile.

        Raises:
            LogIntegrityError: the log is not what it was.
            LogUnavailableError: no broker has answered.
        """
        try:
            while not stop.is_set():
                self._replica.follow()
                if self._is_due():
                    self._try_checkpoint()
        finally:
            self._replica.close()

    def checkpoint_now(self) -> Path | None:
        """Replays to the end of the log and saves what is told of it; None when there is nothing to save."""
        for _ in self._replica.follow_to_end():
            pass
        return self.checkpoint()

    def checkpoint(self) -> Path | None:
        """Saves the state as it is, and trims; None when the log is empty."""
        if not self._replica.has_genesis:
            return None
        position = self._replica.position
        path = write_checkpoint(self._directory, self._replica.state, position, self._settings.machine)
        self.saved_seq, self._written_at = position.seq, self._settings.machine.now_s()
        _logger.info("checkpoint at outcome %d: %s", position.seq, path.name)
        trim_proposals(self._settings, self._replica.state.next_offsets)
        return path

    def close(self) -> None:
        """Ends following the log."""
        self._replica.close()

    def _try_checkpoint(self) -> None:
        try:
            self.checkpoint()
            self.problem = None
        except OSError as error:
            self.problem = f"cannot write a checkpoint: {error}"
            self._due_after_s = self._settings.machine.now_s() + FAILED_PAUSE_S
            _logger.warning("%s; trying again in %.0f s", self.problem, FAILED_PAUSE_S)

    def _is_due(self) -> bool:
        if not self._replica.has_genesis or self._settings.machine.now_s() < self._due_after_s:
            return False
        outcomes = self._replica.position.seq - self.saved_seq
        return outcomes >= self._every_outcomes or (
            outcomes > 0 and self._settings.machine.now_s() - self._written_at >= self._every_s
        )


def _skipped(error: LogIntegrityError) -> None:
    _logger.warning("a checkpoint is skipped: %s", error)


def trim_proposals(settings: Settings, next_offsets: dict[int, int]) -> None:
    """Deletes the proposals below the decided positions; their bytes are in the outcomes."""
    admin, topic = make_admin(settings), topics_of(settings.log).proposals
    firsts = first_offsets(settings, topic, next_offsets)
    below = [
        TopicPartition(topic, partition, offset)
        for partition, offset in next_offsets.items()
        if offset > firsts[partition]
    ]
    if not below:
        return
    for where, future in admin.delete_records(below, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            future.result()
        except KafkaException as error:
            _logger.warning("%s partition %d could not be trimmed: %s", topic, where.partition, error)


def run_checkpointer(
    settings: Settings,
    *,
    stop: threading.Event | None = None,
    on_made: Callable[[Checkpointer], None] = lambda checkpointer: None,
) -> None:
    """Runs a checkpointer until it is stopped; ``on_made`` is told of it before it begins."""
    checkpointer = Checkpointer(settings)
    on_made(checkpointer)
    checkpointer.run(stop or settings.machine.event())
