"""Outcomes from the log to the border, each exactly once and in the log's order: only those that count (`Chain`).

How far they are, the last outcome at the border says, with its place in the results. They are written by transactions of
Kafka's, whose id fences a relay that gave them before.
"""

from __future__ import annotations

import logging
import threading

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from commitlog.config import Settings
from commitlog.domain.model import Configure, Genesis, Outcome, Verdict
from commitlog.errors import ConfigurationError, FencedError, LogRefusedError, LogUnavailableError
from commitlog.log.chain import LogPosition
from commitlog.log.codec import OutcomeHead, decode_head, hash_record
from commitlog.log.codec.confluent import framed, unframed
from commitlog.log.connection import batch_bytes, committed_end, first_offsets, ready_producer
from commitlog.log.reading import Patience, TopicReader
from commitlog.log.results import ResultRecord, ResultsReader
from commitlog.log.topic_settings import command_setting, topic_message_bytes_max
from commitlog.log.topics import BorderTopics, border_topics_of, relay_of
from commitlog.log.triage import Triage, triage
from commitlog.log.trims import last_trim, position_of
from commitlog.relay.progress import RelayProgress
from commitlog.relay.topics import ensure_border_topics
from commitlog.relay.turn import Turn

RECORDS_MAX = 1_000
POLL_S = 0.2
TRANSACTION_TIMEOUT_S = 60.0
LAST_LOOKED_FOR = 16
OFFSET_HEADER = "commitlog.results.offset"
_logger = logging.getLogger("commitlog.relay")
_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


class Outward:
    """Takes the log's outcomes to the border.

    Args:
        settings: which log, and where.
        genesis: the log's own.
        border: the topics at the border.
        progress: is added to.
        outcomes_id: the id of the schema of outcomes.
    """

    def __init__(
        self, settings: Settings, genesis: Genesis, border: BorderTopics, progress: RelayProgress, *, outcomes_id: int
    ) -> None:
        self._settings = settings
        self._genesis = genesis
        self._topic = border.results
        self._progress = progress
        self._outcomes_id = outcomes_id

    def run(self, stop: threading.Event) -> None:
        """Do so while it is its turn, until it is told to stop.

        Raises:
            ConfigurationError: the border has lost what it was given.
            FencedError: another relay gives them, before this one has heard that its turn is over.
            LogUnavailableError: a broker does not answer.
            LogRefusedError: Kafka does not let a topic be read or written.
            LogIntegrityError: the results are not what they were.
        """
        try:
            with Turn(self._settings) as turn:
                while not stop.is_set():
                    self._progress.is_standby = True
                    if turn.is_mine(POLL_S):
                        self._give_all(turn, stop)
        except KafkaException as error:
            raise self._in_our_words(error.args[0]) from None

    def _give_all(self, turn: Turn, stop: threading.Event) -> None:
        """Give what is not at the border yet, and then what comes, as long as it is this one's turn."""
        producer = ready_producer(
            self._settings,
            transactional_id=relay_of(self._settings.log),
            transaction_timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
            batch_size=batch_bytes(topic_message_bytes_max(self._settings, self._topic)),
        )
        producer.init_transactions(TRANSACTION_TIMEOUT_S)
        with ResultsReader(self._settings, after=self._begins_after()) as reader:
            self._progress.is_standby, noted = False, -1
            while turn.is_mine() and not stop.is_set():
                records = reader.read(records_max=RECORDS_MAX, timeout_s=POLL_S)
                self._give([each for each in records if not isinstance(each.value, Genesis)], producer)
                if reader.next_offset != noted:
                    noted = reader.next_offset
                    turn.note(noted)

    def _give(self, records: list[ResultRecord], producer: Producer) -> None:
        if not records:
            return
        for record in records:
            self._make_room(record.outcome)
        producer.begin_transaction()
        for record in records:
            producer.produce(
                self._topic,
                value=framed(record.raw, self._outcomes_id),
                key=(record.outcome.writer_id or "").encode("utf-8"),
                headers={OFFSET_HEADER: str(record.offset)},
            )
        producer.commit_transaction(TRANSACTION_TIMEOUT_S)
        self._progress.outcomes += len(records)

    def _make_room(self, outcome: Outcome) -> None:
        """Have the border take what the log takes after an outcome. Where Kafka refuses it, nothing larger need ever come; what
        does is refused, and the next start says why."""
        proposal = outcome.proposal
        if outcome.verdict is not Verdict.COMMITTED or proposal is None:
            return
        for change in proposal.changes:
            if isinstance(change, Configure) and "proposal_bytes_max" in change.settings:
                bytes_max = change.settings["proposal_bytes_max"]
                assert isinstance(bytes_max, int)
                try:
                    ensure_border_topics(self._settings, self._genesis.partitions, bytes_max)
                except LogRefusedError as error:
                    _logger.warning("larger outcomes than before do not come to %s: %s", self._topic, error)

    def _begins_after(self) -> LogPosition | None:
        """The last outcome at the border; before there is one, the first that is left of a log whose results were trimmed."""
        last = last_at_border(self._settings, self._genesis.log_id)
        noted = last_trim(self._settings) if last is None else None
        return last if noted is None else position_of(noted)

    def _in_our_words(self, error: KafkaError) -> Exception:
        servers = self._settings.bootstrap_servers
        if error.code() in _FENCED:
            return FencedError(f"another relay of the log {self._settings.log} gives its outcomes")
        if triage(error) is Triage.REFUSED and not error.txn_requires_abort():
            return LogRefusedError(servers, error.name(), detail=error.str())
        return LogUnavailableError(servers, detail=error.str())


def last_at_border(settings: Settings, log_id: bytes) -> LogPosition | None:
    """Where in the results the last outcome lies that is at the border, which has its topics; None before the log's first one.

    Raises:
        ConfigurationError: those that were there are deleted.
        LogUnavailableError: no broker has answered.
    """
    message = _last(settings)
    if message is None:
        return None
    value, offset = message.value(), dict(message.headers() or ())[OFFSET_HEADER]
    assert value is not None
    assert offset is not None
    raw = unframed(value, "Outcome")
    head = decode_head(raw)
    assert isinstance(head, OutcomeHead)
    if head.log_id != log_id:
        return None
    return LogPosition(head.log_id, head.seq, head.epoch, hash_record(raw), int(offset))


def _last(settings: Settings) -> Message | None:
    """The last outcome at the border; the last offsets are those of the ends of transactions."""
    topic = border_topics_of(settings.log).results
    # Where the site lets what is old there go.
    first = first_offsets(settings, topic, [0])[0]
    end = committed_end(settings, topic, 0)
    back = LAST_LOOKED_FOR
    while True:
        start = max(first, end - back)
        found = [each for each in _between(settings, start, end) if _is_relays(each)]
        if found:
            return found[-1]
        if start == first:
            break
        back *= LAST_LOOKED_FOR
    if first:
        raise ConfigurationError(
            f"{topic} holds no outcome any more, so it is not known how far they were given. Have it keep them "
            f"(`{command_setting(topic, 'retention.ms', '-1')}`); deleted, it is made anew and given all that the log holds"
        )
    return None


def _between(settings: Settings, start: int, end: int) -> list[Message]:
    """What readers of transactions are given from an offset to the end."""
    found: list[Message] = []
    topic = border_topics_of(settings.log).results
    reader = TopicReader(settings, topic, {0: start}, isolation_level="read_committed")
    patience = Patience(settings, TRANSACTION_TIMEOUT_S, f"{topic} cannot be read")
    try:
        while not reader.is_through(0, end):
            came = reader.read(RECORDS_MAX, POLL_S)
            if came:
                patience.renew()
            else:
                patience.check()
            found += came
    finally:
        reader.close()
    return found


def _is_relays(message: Message) -> bool:
    """Whether a relay has written it: who may write there is the site's to say."""
    return OFFSET_HEADER in dict(message.headers() or ())
