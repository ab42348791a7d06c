"""The log's closed ranges as Parquet files, so that analysis and verification need no Kafka, and results can be trimmed.

A range is so many snapshots, and closed when the head is beyond it; outcomes belong to the range of their head. Every file
holds the records' own bytes beside typed columns, so that it is checked like any other reading of the log. Its metadata have
the position where the next file goes on: an archive that was interrupted is simply continued. A backup is an archive with one
file more: what comes after the last closed range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from commitlog.client.outcomes.archive_files import ArchivedRange, ArchivedRecord, ArchiveFiles, PlacedRecord
from commitlog.config import Settings
from commitlog.domain.model import Genesis
from commitlog.errors import ConfigurationError, LogIntegrityError, ResultsTrimmedError
from commitlog.log.chain import Accepted, Chain, Step
from commitlog.log.codec import Takeover, Trim
from commitlog.log.results import LogPosition, ResultRecord, ResultsReader, decode_accepted
from commitlog.log.trims import last_trim, position_of


def archive(
    settings: Settings,
    to: str,
    *,
    range_snapshots: int | None = None,
    on_range: Callable[[ArchivedRange], None] = lambda _: None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[ArchivedRange]:
    """Write every closed range that the archive does not have yet.

    Args:
        settings: which log.
        to: a folder, or an object store's URL.
        range_snapshots: how many snapshots a file covers; None is as many as the archive began with, 100,000 in a new one.
        on_range: told after every file.
        on_progress: told how many records of the log are read, and how many there are.

    Raises:
        ConfigurationError: the archive holds ranges of another length.
        LogIntegrityError: the archive is of another log, or of outcomes that the log has lost, or lacks some that were
            trimmed, or the log does not fit itself.
    """
    files = ArchiveFiles(to)
    for last in files.last_positions():
        _check_goes_on(settings, to, last)
    files.remove_left()
    done = files.names()
    length = files.range_snapshots(range_snapshots)
    after = files.position(done[-1]) if done else None
    written: list[ArchivedRange] = []
    try:
        reader = ResultsReader(settings, after=after)
    except ResultsTrimmedError as error:
        ends = "has no closed range" if after is None else f"ends with outcome {after.seq:,}"
        raise LogIntegrityError(
            f"the archive at {to} {ends}, and those before outcome {error.seq:,} were trimmed after they were archived at "
            f"{error.archive}. Nothing was written; go on with that archive, or copy it to {to} first"
        ) from None
    with reader:
        for made in files.write_ranges(_read_to_end(reader, on_progress), length, len(done)):
            written.append(made)
            on_range(made)
    return written


def back_up(
    settings: Settings,
    to: str,
    *,
    range_snapshots: int | None = None,
    on_progress: Callable[[str, int, int], None] = lambda doing, done, total: None,
) -> LogPosition:
    """Bring an archive up to now, and write what comes after its last closed range beside it; gives the last outcome of it.

    ``range_snapshots`` is that of `archive`; ``on_progress`` is told what is being done besides.

    Raises:
        ConfigurationError: the archive holds ranges of another length, or the log is empty.
        LogIntegrityError: the archive is of another log, or the log does not fit itself.
    """
    archive(settings, to, range_snapshots=range_snapshots, on_progress=partial(on_progress, "archiving"))
    after = archived_position(to)
    with ResultsReader(settings, after=after) as reader:
        at = ArchiveFiles(to).write_end(after, _read_to_end(reader, partial(on_progress, "backing up the rest")))
        if at is None:
            raise ConfigurationError(f"the log {settings.log!r} has no genesis yet: `commitlog init`")
        return at


def _check_goes_on(settings: Settings, to: str, last: LogPosition) -> None:
    """Check that the log goes on after what is archived: what it lacks may be nowhere else any more, and stays as it is."""
    try:
        ResultsReader(settings, after=last).close()
    except ResultsTrimmedError:
        return
    except LogIntegrityError as error:
        raise LogIntegrityError(
            f"the archive at {to} ends with outcome {last.seq}, which the log {settings.log} does not have ({error}). Nothing "
            "was written; archive this log elsewhere, and keep that one"
        ) from None


def archived_so_far(to: str) -> tuple[list[str], LogPosition | None]:
    """The files of an archive, in the order of their snapshots, and the last outcome that these hold; somebody may go on with
    it meanwhile."""
    files = ArchiveFiles(to)
    names = files.names()
    return [files.url(name) for name in names], files.position(names[-1]) if names else None


def check_there(archive: str) -> None:
    """Raise ConfigurationError where nothing is archived: a name that is mistyped would stand for an archive that is well."""
    if not ArchiveFiles(archive).last_positions():
        raise ConfigurationError(
            f"there is no archive at {archive}, or it is not seen from here; `commitlog archive` writes one as soon as a range "
            "is closed"
        )


def archived_position(to: str) -> LogPosition | None:
    """The last outcome that an archive holds; None when it is empty."""
    return archived_so_far(to)[1]


def range_of(to: str) -> int:
    """How many snapshots a file of an archive covers, and will where it has none yet."""
    return ArchiveFiles(to).range_snapshots(None)


def archived_ends(to: str) -> list[LogPosition]:
    """The last outcome of each closed range."""
    files = ArchiveFiles(to)
    return [files.position(name) for name in files.names()]


def archived_records(to: str, *, with_end: bool = False) -> Iterator[ArchivedRecord]:
    """What an archive holds, in order, as it is: only the chain tells whether it was changed.

    Args:
        to: the archive.
        with_end: also what a backup has behind the closed ranges.
    """
    files = ArchiveFiles(to)
    names = files.names()
    for name in names:
        yield from files.records(name)
    closed = files.position(names[-1]).results_offset if names else -1
    for name in files.end_names() if with_end else ():
        yield from (record for record in files.records(name) if record.offset > closed)


def archived_results(to: str, *, with_end: bool = False) -> Iterator[ResultRecord]:
    """The same as a reader of the results gives them.

    Raises:
        LogIntegrityError: something in the archive is not what was archived.
    """
    chain = Chain()
    for record in archived_records(to, with_end=with_end):
        step: Step | None = None
        for each in (*record.takeovers, record.raw):
            chain.next_offset = record.offset
            step = chain.take(each, record.offset)
        if not isinstance(step, Accepted) or isinstance(step.head, Takeover):
            raise LogIntegrityError(
                f"the archive at {to} holds at results offset {record.offset} what does not count: {step}"
            )
        head = step.head
        value, told = (head, 0) if isinstance(head, Genesis) else (decode_accepted(record.raw, step), head.told)
        yield ResultRecord(value, record.offset, step.hash, record.raw, told, record.takeovers)


def trimmed_results(noted: Trim) -> Iterator[ResultRecord]:
    """What was trimmed, as its archive has it: from the genesis to the first outcome that is still in the results.

    Raises:
        LogIntegrityError: the archive does not hold that outcome, or is not seen from here.
    """
    for record in archived_results(noted.archive):
        if record.seq == noted.seq and record.hash != noted.hash:
            break
        yield record
        if record.seq == noted.seq:
            return
    raise lacking_trimmed(noted.archive, noted)


def lacking_trimmed(archive: str, noted: Trim) -> LogIntegrityError:
    """What whoever reads an archive first is told where it ends before what is left in the results."""
    return LogIntegrityError(
        f"the archive at {archive} does not hold outcome {noted.seq}, up to which was trimmed, or is not seen from this "
        "machine: run it where that archive is"
    )


def whole_history(settings: Settings) -> Iterator[ResultRecord]:
    """The genesis and every outcome up to now: those that were trimmed from their archive, the others from Kafka.

    Raises:
        LogIntegrityError: the log does not fit itself, or what was trimmed is not in its archive.
        LogUnavailableError: no broker has answered.
    """
    noted = last_trim(settings)
    if noted is not None:
        yield from trimmed_results(noted)
    with ResultsReader(settings, after=None if noted is None else position_of(noted)) as reader:
        for records in reader.read_to_end():
            yield from records


def _read_to_end(
    reader: ResultsReader, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[PlacedRecord]:
    """What the log holds now."""
    start, end = reader.next_offset, reader.end()
    for records in reader.read_to(end):
        on_progress(min(reader.next_offset, end) - start, end - start)
        for record in records:
            assert reader.position is not None
            yield PlacedRecord(record, record.position_in(reader.position.log_id))
