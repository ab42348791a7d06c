"""Kafka in memory, as its Python library shows it: as much of it as the log room uses, and what goes wrong on the way to it.

Records go to the broker in the order in which a producer sends them, and take a while. What becomes of one, and what is
reported of it, is chance's: written; written, and reported without an offset or as failed; not written; written late, after
its writer gave up; written twice. One thing holds: a report that names an offset is true. A machine that is cut off hears
nothing, and its requests fail when their time is over. A client that has gone deaf never sends or gives out anything
again, and says nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from commitlog.simulation.scheduling import Scheduler, SimulatedMachine

REQUEST_TIMEOUT_S = 10.0
LATENCIES_S = (0.001, 0.001, 0.003, 0.03, 0.3)
UNUSUAL = 6
"""One record in so many has an unusual fate, where there are such."""

OnDelivery = Callable[[KafkaError | None, Any], None]
OnAppend = Callable[[str, int, int, bytes | None, str], None]


class Message:
    """What a consumer gives out, and what a producer reports of."""

    __slots__ = ("_error", "_key", "_offset", "_partition", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int | None,
        key: bytes | None = None,
        value: bytes | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._key, self._value, self._error = key, value, error

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int | None:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> None:
        """Here records are sent without any."""

    def error(self) -> KafkaError | None:
        return self._error


class Record(NamedTuple):
    """What is in a partition."""

    key: bytes | None
    value: bytes | None


@dataclass(eq=False, slots=True)
class Partition:
    """Records from an offset on."""

    first: int = 0
    records: list[Record] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.first + len(self.records)

    def trim(self, before: int) -> None:
        """Forgets what lies before an offset."""
        count = max(0, min(before, self.end) - self.first)
        del self.records[:count]
        self.first += count


class Broker:
    """Topics in memory.

    Args:
        scheduler: by whose clock all takes its time.
        topics: partitions and settings, by name.
        on_append: told of everything that is written: topic, partition, offset, value, and which process has written it.
        on_trim: told of what is trimmed: topic, partition, the first offset that is kept.
        on_unusual: told of values that something befalls on their way.

    Attributes:
        written: how many records were ever written.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        topics: Mapping[str, tuple[int, dict[str, str]]],
        on_append: OnAppend,
        on_trim: Callable[[str, int, int], None],
        on_unusual: Callable[[bytes | None], None],
    ) -> None:
        self.scheduler = scheduler
        self.choices = scheduler.choices
        self.is_unusual = False
        self.away_s = 0.0
        self.written = 0
        self.topics = {name: [Partition() for _ in range(count)] for name, (count, _) in topics.items()}
        self.settings = {name: dict(settings) for name, (_, settings) in topics.items()}
        self.on_trim = on_trim
        self.on_unusual = on_unusual
        self._on_append = on_append

    def append(self, topic: str, partition: int, key: bytes | None, value: bytes | None, by: str) -> int:
        """Writes a record; its offset."""
        at = self.topics[topic][partition]
        at.records.append(Record(key, value))
        self.written += 1
        self._on_append(topic, partition, at.end - 1, value, by)
        return at.end - 1

    def is_reached_by(self, machine: SimulatedMachine) -> bool:
        """Whether it hears the machine, and the machine it."""
        return self.away_s <= self.scheduler.now_s >= machine.cut_s

    def latency_s(self) -> float:
        """How long something takes."""
        return self.choices.pick(LATENCIES_S) if self.is_unusual else LATENCIES_S[0]

    def of(self, machine: SimulatedMachine) -> Any:
        """What a machine's clients are made of."""
        return SimpleNamespace(
            Consumer=lambda options: Consumer(self, machine, options),
            Producer=lambda options: Producer(self, machine, options),
            AdminClient=lambda options: AdminClient(self, machine),
        )

    def request(self, machine: SimulatedMachine, timeout_s: float) -> None:
        """Asks it something, which takes a while."""
        machine.wait(self.latency_s())
        if not self.is_reached_by(machine):
            machine.wait(timeout_s, lambda: self.is_reached_by(machine))
        if not self.is_reached_by(machine):
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "simulated: no broker answers"))

    def metadata(self) -> Any:
        """As `list_topics` gives it."""
        led = SimpleNamespace(leader=0)
        topics = {
            name: SimpleNamespace(partitions=dict.fromkeys(range(len(each)), led)) for name, each in self.topics.items()
        }
        return SimpleNamespace(topics=topics, brokers={0: None})


class Answer:
    """A future: what a request gives."""

    def __init__(self, broker: Broker, machine: SimulatedMachine, timeout_s: float, found: Callable[[], Any]) -> None:
        self._broker, self._machine, self._timeout_s, self._found = broker, machine, timeout_s, found
        self._at_s = broker.scheduler.now_s + broker.latency_s()

    def done(self) -> bool:
        return self._broker.scheduler.now_s >= self._at_s

    def exception(self) -> Exception | None:
        reached = self._broker.is_reached_by(self._machine)
        return None if reached else KafkaException(KafkaError(KafkaError._TRANSPORT, "simulated"))

    def result(self) -> Any:
        if not (self.done() and self._broker.is_reached_by(self._machine)):
            self._broker.request(self._machine, self._timeout_s)
        return self._found()


class _Client:
    """What a process reaches it by."""

    def __init__(self, broker: Broker, machine: SimulatedMachine) -> None:
        self._broker, self._machine = broker, machine

    def list_topics(self, topic: str | None = None, timeout: float = REQUEST_TIMEOUT_S) -> Any:
        self._broker.request(self._machine, timeout)
        return self._broker.metadata()


# --- producer ---------------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Flying:
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    on_delivery: OnDelivery | None
    deadline_s: float


class Producer(_Client):
    """What a process writes with; what it has sent may arrive when nobody hears of it any more.

    Attributes:
        is_deaf: it never sends anything any more, and reports nothing.
    """

    def __init__(self, broker: Broker, machine: SimulatedMachine, options: Mapping[str, Any]) -> None:
        super().__init__(broker, machine)
        self._timeout_s = float(options.get("delivery.timeout.ms", 300_000)) / 1000
        self._reports: deque[tuple[_Flying, KafkaError | None, int | None]] = deque()
        self._on_its_way = 0
        self._arrives_s = 0.0
        self._is_heard = True
        self.is_deaf = False
        machine.clients.append(self)

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = 0,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        self._machine.called()
        scheduler = self._broker.scheduler
        flying = _Flying(topic, partition, key, value, on_delivery, scheduler.now_s + self._timeout_s)
        self._on_its_way += 1
        self._arrives_s = max(self._arrives_s, scheduler.now_s + self._broker.latency_s())
        scheduler.after(self._arrives_s - scheduler.now_s, lambda: self._arrive(flying))

    def __len__(self) -> int:
        return self._on_its_way

    def poll(self, timeout: float = -1) -> int:
        self._machine.called()
        if not self._reports and timeout:
            self._machine.wait(None if timeout < 0 else timeout, lambda: bool(self._reports))
        count = len(self._reports)
        for _ in range(count):
            flying, error, offset = self._reports.popleft()
            self._on_its_way -= 1
            if flying.on_delivery is not None:
                flying.on_delivery(
                    error, Message(flying.topic, flying.partition, offset, flying.key, flying.value, error)
                )
        return count

    def flush(self, timeout: float = -1) -> int:
        deadline_s = float("inf") if timeout < 0 else self._machine.now_s() + timeout
        while self._on_its_way and self._machine.now_s() < deadline_s:
            self.poll(min(deadline_s - self._machine.now_s(), REQUEST_TIMEOUT_S))
        return self._on_its_way

    def purge(self) -> None:
        self._is_heard = False
        self._machine.clients.remove(self)

    def _arrive(self, flying: _Flying) -> None:
        broker, choices = self._broker, self._broker.choices
        is_forgotten = not self._is_heard or self._machine.is_dead
        if self.is_deaf or (is_forgotten and choices.one_in(3)):
            return
        if not broker.is_reached_by(self._machine):
            self._wait_for_broker(flying)
        elif broker.is_unusual and choices.one_in(UNUSUAL):
            self._arrive_unusually(flying)
        else:
            self._report(flying, None, self._write(flying))

    def _wait_for_broker(self, flying: _Flying) -> None:
        self._broker.on_unusual(flying.value)
        scheduler = self._broker.scheduler
        again_s = max(self._broker.away_s, self._machine.cut_s)
        if again_s <= flying.deadline_s:
            scheduler.after(again_s - scheduler.now_s, lambda: self._arrive(flying))
            return
        late = self._broker.choices.one_in(3)
        scheduler.after(flying.deadline_s - scheduler.now_s, lambda: self._report(flying, _timed_out(), None))
        if late:
            scheduler.after(again_s - scheduler.now_s, lambda: self._write(flying))

    def _arrive_unusually(self, flying: _Flying) -> None:
        self._broker.on_unusual(flying.value)
        what = self._broker.choices.below(7)
        if what == 0:
            self._write(flying)
            self._report(flying, None, None)
        elif what == 1:
            self._write(flying)
            self._report(flying, _timed_out(), None)
        elif what == 2:
            self._report(flying, _timed_out(), None)
        elif what == 3:
            self._report(flying, None, None)
        elif what == 4:
            self._report(flying, _timed_out(), None)
            self._broker.scheduler.after(self._broker.latency_s() * 10, lambda: self._write(flying))
        else:
            first, second = self._write(flying), self._write(flying)
            self._report(flying, None, first if what == 5 else second)

    def _write(self, flying: _Flying) -> int:
        by = self._machine.name
        return self._broker.append(flying.topic, flying.partition, flying.key, flying.value, by)

    def _report(self, flying: _Flying, error: KafkaError | None, offset: int | None) -> None:
        if self._is_heard and not self.is_deaf:
            delay_s = self._broker.latency_s()
            self._broker.scheduler.after(delay_s, lambda: self._reports.append((flying, error, offset)))


def _timed_out() -> KafkaError:
    return KafkaError(KafkaError._MSG_TIMED_OUT, "simulated")


# --- consumer ---------------------------------------------------------------------------------------------------------


class Consumer(_Client):
    """What a process reads with.

    Attributes:
        is_deaf: it gives out nothing any more.
    """

    def __init__(self, broker: Broker, machine: SimulatedMachine, options: Mapping[str, Any]) -> None:
        super().__init__(broker, machine)
        self._tells_end = bool(options.get("enable.partition.eof", False))
        self._next: dict[tuple[str, int], int] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._told_end: dict[tuple[str, int], int] = {}
        self._stopped: set[tuple[str, int]] = set()
        self._lacking: tuple[int, int] | None = None
        self.is_deaf = False
        machine.clients.append(self)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._next.clear()
        self._told_end.clear()
        self._stopped.clear()
        self.incremental_assign(partitions)

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._machine.called()
        self._lacking = None
        for each in partitions:
            at = each.topic, each.partition
            end = self._broker.topics[each.topic][each.partition].end
            self._next[at] = self._starts[at] = end if each.offset == OFFSET_END else each.offset

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            at = each.topic, each.partition
            self._next.pop(at, None)
            self._told_end.pop(at, None)
            self._stopped.discard(at)

    def unassign(self) -> None:
        self.assign([])

    def close(self) -> None:
        self._next.clear()
        if self in self._machine.clients:
            self._machine.clients.remove(self)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self._machine.called()
        self._lacking = None
        if timeout and not self._has(num_messages):
            self._machine.wait(None if timeout < 0 else timeout, lambda: self._has(num_messages))
        if self.is_deaf or not self._broker.is_reached_by(self._machine):
            return []
        given: list[Message] = []
        for at in self._next:
            if len(given) >= num_messages:
                break
            given += self._taken(at, num_messages - len(given))
        return given

    def _has(self, count: int) -> bool:
        if self.is_deaf or not self._broker.is_reached_by(self._machine):
            return False
        # While it waits, this is asked at nearly every step of the world.
        if self._lacking == (self._broker.written, count):
            return False
        due = 0
        for at, offset in self._next.items():
            due += self._due(at, offset)
            if due >= count:
                return True
        self._lacking = self._broker.written, count
        return False

    def _due(self, at: tuple[str, int], offset: int) -> int:
        """How much of a partition would be given out; an error or an end is one message."""
        if at in self._stopped:
            return 0
        end = self._broker.topics[at[0]][at[1]].end
        if offset == end:
            return int(self._tells_end and self._told_end.get(at) != offset)
        return max(1, end - offset)

    def _taken(self, at: tuple[str, int], count: int) -> Sequence[Message]:
        topic, number = at
        partition, offset = self._broker.topics[topic][number], self._next[at]
        if not self._due(at, offset):
            return ()
        if not partition.first <= offset <= partition.end:
            self._stopped.add(at)
            error = KafkaError(KafkaError._AUTO_OFFSET_RESET, "simulated: offset out of range")
            return (Message(topic, number, offset, error=error),)
        if offset == partition.end:
            self._told_end[at] = offset
            return (Message(topic, number, offset, error=KafkaError(KafkaError._PARTITION_EOF)),)
        start = offset - partition.first
        if self._broker.is_unusual and start and offset > self._starts[at] and self._broker.choices.one_in(4 * UNUSUAL):
            start -= 1
        found = partition.records[start : start + count]
        self._next[at] = partition.first + start + len(found)
        return [
            Message(topic, number, partition.first + start + index, record.key, record.value)
            for index, record in enumerate(found)
        ]


# --- requests ---------------------------------------------------------------------------------------------------------


class AdminClient(_Client):
    """What a process asks about topics with."""

    def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec], request_timeout: float = REQUEST_TIMEOUT_S
    ) -> dict[TopicPartition, Answer]:
        self._machine.called()
        return {where: self._answer(self._offset(where, spec), request_timeout) for where, spec in wanted.items()}

    def describe_topics(
        self, topics: TopicCollection, *, include_authorized_operations: bool, request_timeout: float
    ) -> dict[str, Answer]:
        nothing_said = SimpleNamespace(authorized_operations=None)
        return {name: self._answer(lambda: nothing_said, request_timeout) for name in topics.topic_names}

    def describe_configs(
        self, resources: Iterable[Any], request_timeout: float = REQUEST_TIMEOUT_S
    ) -> dict[Any, Answer]:
        return {each: self._answer(partial(self._entries, each.name), request_timeout) for each in resources}

    def incremental_alter_configs(
        self, resources: Iterable[Any], request_timeout: float = REQUEST_TIMEOUT_S
    ) -> dict[Any, Answer]:
        def alter(resource: Any) -> None:
            for entry in resource.incremental_configs:
                self._broker.settings[resource.name][entry.name] = entry.value

        return {each: self._answer(partial(alter, each), request_timeout) for each in resources}

    def delete_records(
        self, below: Iterable[TopicPartition], request_timeout: float = REQUEST_TIMEOUT_S
    ) -> dict[TopicPartition, Answer]:
        def trim(where: TopicPartition) -> None:
            self._broker.topics[where.topic][where.partition].trim(where.offset)
            self._broker.on_trim(where.topic, where.partition, where.offset)

        return {each: self._answer(partial(trim, each), request_timeout) for each in below}

    def _answer(self, found: Callable[[], Any], timeout_s: float) -> Answer:
        return Answer(self._broker, self._machine, timeout_s, found)

    def _offset(self, where: TopicPartition, spec: OffsetSpec) -> Callable[[], Any]:
        partition = self._broker.topics[where.topic][where.partition]
        is_latest = spec is OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return lambda: SimpleNamespace(offset=partition.end if is_latest else partition.first)

    def _entries(self, topic: str) -> Any:
        return {name: SimpleNamespace(value=value) for name, value in self._broker.settings[topic].items()}
