"""One simulated log: who lives, what befalls them, and that all is well again in the end.

Every process is the real one, on a machine of its own. A supervisor starts what has ended again, as `serve` does. What
ends with anything but what it may end with is a violation: no fault of the world may do more than cost time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from commitlog.catalog.projector import Projector
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.state.dumping import state_hash
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.errors import (
    CatalogMismatchError,
    FencedError,
    LogUnavailableError,
    OutcomeUnknownError,
    ResultsTrimmedError,
)
from commitlog.log import codec
from commitlog.log.checkpoint import SUFFIX, Checkpointer, CheckpointName, checkpoint_dir_of, load_checkpoints
from commitlog.log.codec import decode_statistics, encode_genesis, encode_proposal
from commitlog.log.publisher import Publisher
from commitlog.log.results import LogPosition, ResultsReader
from commitlog.log.sequencer import Sequencer
from commitlog.log.topic_settings import wanted_topics
from commitlog.log.topics import topics_of
from commitlog.simulation.catalog import Database, SimulatedCatalog
from commitlog.simulation.checking import Model, require
from commitlog.simulation.choices import Choices
from commitlog.simulation.kafka import Broker
from commitlog.simulation.scheduling import BEGUN_MS, Scheduler, SimulatedMachine, Task
from commitlog.simulation.trimming import Trimmer
from commitlog.simulation.writing import Requests

LOG = "main"
PARTITIONS = 2
SUBSCRIBERS = ("subscriber",)
START_AGAIN_S = 0.2
SETTLE_S_MAX = 130.0
"""Clients that have gone deaf are noticed one behind another, a sequencer's voice after a minute, then each of a writer's. One
run of 1,000 steps in a thousand takes 122 s. The less is allowed, the more is found that waits too long."""
FUSE_MAX = 150
ANSWER_S = 2.0
DELIVERY_S = 20.0
THINK_S = (0.0, 0.01, 0.1, 0.5)
SENT_TOGETHER = (1, 6, 8)
OUTAGES_S = (0.05, 0.5, 2.0, 7.0, 20.0)
CLOCK_JUMPS_MS = (-3_600_000, -1_500, -20, 20, 1_500, 3_600_000)
FAULTS = (
    *("append", "crash", "freeze", "cut", "clock", "broker", "disk", "catalog", "retention", "stranger", "deaf"),
    "torn checkpoint",
)
UNUSUAL = ("append", "catalog")
"""They befall what is sent and written, not a machine."""

_RESTARTED = (FencedError, LogUnavailableError, CatalogMismatchError, ResultsTrimmedError)
Trace = Callable[[str], None]
Role = Callable[["Process"], None]


class Process:
    """A process that is started again whenever it ends."""

    def __init__(self, world: World, name: str, role: Role) -> None:
        self.world = world
        self.name = name
        self.role = role
        self.starts = 0
        self.is_fenced = False
        self.machine: SimulatedMachine
        self.settings: Settings
        self.sequencer: Sequencer | None = None
        self.start()

    def start(self) -> None:
        """Begins on a machine that knows nothing."""
        self.starts += 1
        world = self.world
        self.machine = SimulatedMachine(world.scheduler, self.name, world.befall)
        self.machine.library = world.broker.of(self.machine)
        self.machine.fuse = world.fuse()
        self.settings = replace(world.settings, machine=self.machine)
        self.machine.thread(lambda: self.role(self), "main")

    def ended(self, error: BaseException | None) -> None:
        """Is started again; what it may not end with is a violation."""
        if error is not None and not isinstance(error, _RESTARTED):
            raise error
        self.is_fenced = isinstance(error, FencedError)
        self.world.say(f"{self.name} ends: {error}")
        self.crash()

    def crash(self) -> None:
        """Ends at once; what is on its way may still arrive."""
        self.world.scheduler.crash(self.machine)
        self.world.scheduler.after(START_AGAIN_S, self.start)


class World:
    """One log and everything around it, as the choices will have it.

    Args:
        choices: decide everything.
        settings: of the processes; its checkpoint directory is empty.
        trace: is told what happens.
    """

    def __init__(self, choices: Choices, settings: Settings, trace: Trace = lambda line: None) -> None:
        self.choices = choices
        self.settings = settings
        self.say: Trace = lambda line: trace(f"{self.scheduler.now_s:8.3f} {line}")
        self.is_calm = False
        self.scheduler = Scheduler(choices, self._on_end)
        topics = topics_of(LOG)
        wanted = {**wanted_topics(LOG, PARTITIONS, settings.proposal_bytes_max), topics.trims: (1, {})}
        genesis = m.Genesis(b"L" * 16, partitions=PARTITIONS, created_at_ms=BEGUN_MS)
        self.model = Model(genesis, topics)
        self.broker = Broker(self.scheduler, wanted, self._written, self.model.trimmed, self.model.has_no_order)
        faults = [fault for fault in FAULTS if choices.one_in(2)]
        self.befalls = [fault for fault in faults if fault not in UNUSUAL]
        self.broker.is_unusual = "append" in faults
        self.database = Database(self.scheduler, self.model.projected)
        self.database.is_unusual = "catalog" in faults
        self.broker.append(topics.results, 0, None, encode_genesis(genesis), "init")
        self.writers_left = 0
        self.subscribed: dict[str, list[LogPosition]] = {}
        self.processes = [Process(self, name, role) for name, role in self._roles()]

    def _roles(self) -> list[tuple[str, Role]]:
        sequencers = [(f"sequencer {name}", run_sequencer) for name in "ABC"[: 1 + self.choices.below(3)]]
        writers = [(f"writer {number}", Writer(self, number)) for number in range(1, 2 + self.choices.below(3))]
        projectors = [(f"projector {name}", run_projector) for name in "AB"[: 1 + self.choices.below(2)]]
        others = [("checkpointer", run_checkpointer), *((name, run_subscriber) for name in SUBSCRIBERS)]
        trimmer = Trimmer(self.choices, self._needs)
        trims = [("trimmer", lambda process: trimmer.run(process.settings))] if self.choices.one_in(2) else []
        return [*sequencers, *writers, *projectors, *others, *trims]

    def _needs(self) -> list[int]:
        """By readers, what they have for good; each needs that to go on after it."""
        applied = self.database.position
        return [-1 if applied is None else applied.seq, *(len(self.subscribed.get(name, ())) for name in SUBSCRIBERS)]

    # --- how it goes --------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """So many steps of whatever happens, then until all is well."""
        try:
            self.scheduler.run(lambda: self.scheduler.steps >= steps)
            self._settle()
            self._check()
        finally:
            self.scheduler.end()

    def befall(self, machine: SimulatedMachine) -> None:
        """Something happens to a process, in the middle of what it does."""
        machine.fuse = self.fuse()
        if self.is_calm or not self.befalls:
            return
        now_s, fault = self.scheduler.now_s, self.choices.pick(self.befalls)
        self.say(f"{fault} at {machine.name}")
        if fault == "crash":
            process = next(each for each in self.processes if each.machine is machine)
            machine.is_dead = True
            self.scheduler.after(0.0, process.crash)
        elif fault == "freeze":
            machine.frozen_s = now_s + self.choices.pick(OUTAGES_S)
        elif fault == "cut":
            machine.cut_s = now_s + self.choices.pick(OUTAGES_S)
        elif fault == "clock":
            machine.clock_off_ms += self.choices.pick(CLOCK_JUMPS_MS)
        elif fault == "broker":
            self.broker.away_s = now_s + self.choices.pick(OUTAGES_S)
        elif fault == "disk":
            machine.full_s = now_s + self.choices.pick(OUTAGES_S)
        elif fault == "deaf":
            self._deafen(machine)
        elif fault == "torn checkpoint":
            self._tear_checkpoint()
        elif fault == "retention":
            self._cut_retention()
        elif fault == "stranger":
            self._write_as_stranger()

    def fuse(self) -> int:
        """After how many calls something befalls a machine."""
        return -1 if self.is_calm else self.choices.below(FUSE_MAX)

    def _deafen(self, machine: SimulatedMachine) -> None:
        if machine.clients:
            self.choices.pick(machine.clients).is_deaf = True

    def _tear_checkpoint(self) -> None:
        """The newest is cut off, or has another byte."""
        for path in sorted(checkpoint_dir_of(self.settings).glob(f"*{SUFFIX}"))[-1:]:
            whole = path.read_bytes()
            at = self.choices.below(max(1, len(whole)))
            flipped = bytes([whole[at] ^ 1]) + whole[at + 1 :] if whole and self.choices.below(2) else b""
            path.write_bytes(whole[:at] + flipped)

    def _cut_retention(self) -> None:
        topics = topics_of(LOG)
        for topic in (topics.receipts, topics.control):
            for partition in self.broker.topics[topic]:
                partition.trim(partition.first + self.choices.below(len(partition.records) + 1))

    def _write_as_stranger(self) -> None:
        """Junk, and what was written before once more."""
        results, proposals = topics_of(LOG).results, topics_of(LOG).proposals
        what = self.choices.below(3)
        if what == 0:
            self.broker.append(results, 0, None, self.choices.pick((b"junk", None, b"\xc3\x01")), "stranger")
        elif what == 1:
            again = self.choices.pick(self.broker.topics[results][0].records)
            self.broker.append(results, 0, again.key, again.value, "stranger")
        else:
            at = self.choices.below(PARTITIONS)
            records = self.broker.topics[proposals][at].records
            junk = self.choices.pick((b"junk", None, records[-1].value if records else b""))
            self.broker.append(proposals, at, b"stranger", junk, "stranger")

    def _on_end(self, task: Task) -> None:
        process = next((each for each in self.processes if each.machine is task.machine), None)
        if task.machine.is_dead or process is None:
            return
        if task.name.endswith("main"):
            process.ended(task.error)
        elif task.error is not None:
            raise task.error

    def _written(self, topic: str, partition: int, offset: int, value: bytes | None, by: str) -> None:
        self.say(f"{by} writes {topic} {partition} at {offset}: {len(value or b'')} bytes")
        self.model.written(topic, partition, offset, value)
        if topic == topics_of(LOG).trims:
            names = (CheckpointName.parse(path) for path in checkpoint_dir_of(self.settings).iterdir())
            saved = max(name.seq for name in names if name is not None)
            require(codec.decode_trim(value or b"").seq <= saved, "what no checkpoint holds was trimmed", saved)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Nothing befalls anybody from now on: what is owed must be done."""
        self.say("all is well")
        self.is_calm, self.broker.is_unusual, self.database.is_unusual = True, False, False
        now_s = self.broker.away_s = self.scheduler.now_s
        for process in self.processes:
            machine = process.machine
            machine.fuse = -1
            machine.frozen_s = machine.cut_s = machine.full_s = now_s
            machine.clock_off_ms = 0
        self.scheduler.run(lambda: self._is_quiet() or self.scheduler.now_s > now_s + SETTLE_S_MAX)
        require(self._is_quiet(), "not all is well again", *self._owed())

    def _is_quiet(self) -> bool:
        return not self.writers_left and not self._owed()

    def _owed(self) -> list[str]:
        partitions = self.broker.topics[topics_of(LOG).proposals]
        owed = self.model.unanswered({number: each.end for number, each in enumerate(partitions)})
        owed += [f"{writers} writers wait" for writers in [self.writers_left] if writers]
        count = len(self.model.accepted)
        owed += [
            f"{name} has read {len(read)} of {count}" for name, read in self.subscribed.items() if len(read) < count
        ]
        if len(self.database.outcomes) < count:
            owed.append(f"the catalog has {len(self.database.outcomes)} of {count}")
        if not any(each.sequencer and each.sequencer.status.phase == "SERVING" for each in self.processes):
            owed.append("nobody serves")
        if not owed and not self._can_be_loaded():
            owed.append("whoever starts finds neither the beginning of the log nor a checkpoint")
        return owed

    def _can_be_loaded(self) -> bool:
        seq = self.model.noted_seq
        return not seq or any(saved.position.seq >= seq for saved in load_checkpoints(self.settings))

    def _check(self) -> None:
        """The states that processes hold are the fold of the log."""
        self.model.check_serializable()
        state, hashes = new_state(self.model.genesis), {}
        kept = {saved.position.seq: saved for saved in load_checkpoints(self.settings)}
        for accepted in self.model.accepted:
            replay(state, accepted.outcome)
            if accepted.outcome.seq in kept:
                hashes[accepted.outcome.seq] = state_hash(state)
        for seq, digest in hashes.items():
            require(state_hash(kept[seq].load()) == digest, "a checkpoint is not the fold of the log", seq)


# --- roles ------------------------------------------------------------------------------------------------------------


def run_sequencer(process: Process) -> None:
    """A sequencer; who was fenced comes back as a standby."""
    process.sequencer = Sequencer(process.settings)
    process.sequencer.run(standby=process.is_fenced or process.starts > 1)


def run_checkpointer(process: Process) -> None:
    """A checkpointer that has no patience."""
    Checkpointer(process.settings, every_outcomes=7, every_s=3.0).run(process.machine.event())


def run_projector(process: Process) -> None:
    """A projector; of two at once one ends, as it says, and comes back."""
    database, machine = process.world.database, process.machine
    projector = Projector(
        process.settings, decode_statistics=decode_statistics, connect=lambda: SimulatedCatalog(database, machine)
    )
    projector.run(machine.event())


def run_subscriber(process: Process) -> None:
    """Reads every outcome, and remembers for good how far it is."""
    world = process.world
    read = world.subscribed.setdefault(process.name, [])
    with ResultsReader(process.settings, after=read[-1] if read else None) as reader:
        while True:
            for record in reader.read():
                if isinstance(record.value, m.Outcome):
                    world.model.read(process.name, len(read), record.value)
                    read.append(record.position_in(world.model.genesis.log_id))


class Writer:
    """A program that proposes, and does not rest before it knows what became of it, over all its lives."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._requests = Requests(world.choices, world.model, f"w{number}", number)
        self._unanswered: deque[m.Proposal] = deque()

    def __call__(self, process: Process) -> None:
        world, machine = self._world, process.machine
        with Publisher(process.settings, delivery_timeout_s=DELIVERY_S) as publisher:
            while not (world.is_calm and not self._unanswered):
                try:
                    if self._unanswered:
                        self._ask_again(publisher)
                    else:
                        machine.sleep(world.choices.pick(THINK_S))
                        self._ask_together(publisher, machine)
                except OutcomeUnknownError:
                    pass
                except LogUnavailableError:
                    machine.sleep(START_AGAIN_S)
        machine.wait(None)

    def _ask_together(self, publisher: Publisher, machine: SimulatedMachine) -> None:
        """Proposes without waiting for each answer."""
        made = [self._requests.next(machine.now_ms()) for _ in range(self._world.choices.pick(SENT_TOGETHER))]
        self._unanswered += made
        self._world.writers_left += len(made)
        self._world.model.sent_in_order([encode_proposal(each) for each in made])
        for pending in [publisher.publish(each, timeout_s=ANSWER_S) for each in made]:
            self._learn(pending.wait(ANSWER_S))

    def _ask_again(self, publisher: Publisher) -> None:
        proposal = self._unanswered[0]
        self._world.model.has_no_order(encode_proposal(proposal))
        self._learn(publisher.submit(proposal, timeout_s=ANSWER_S))

    def _learn(self, receipt: m.Receipt) -> None:
        """The answer of the first one that is unanswered."""
        self._world.model.learned(self._unanswered.popleft(), receipt)
        self._requests.learned(receipt)
        self._world.writers_left -= 1
