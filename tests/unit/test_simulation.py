"""
A whole broker in one test: clients speak the RustLog protocol to it, its disk is simulated, and the
power fails whenever chance has it.
"""

from __future__ import annotations

import contextlib
from pathlib import PurePath
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.broker import Broker
from rustlog.offsets import journaled, topic
from rustlog.offsets.journaled import JournaledOffsets
from rustlog.settings import BrokerConfig, TopicConfig
from rustlog.storage.segments.store import SegmentsSettings, SegmentStore, open_store
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import SimulatedEnvironment, simulated_environment
from rustlog.wire.listener import Capacity, Listener
from rustlog.wire.rustlog.protocol import make_factory
from tests.seeds import seeds
from tests.unit.patience import Patience
from tests.unit.wire.harness import Client, fetch, produce

GROUP = {"topic": "orders", "partition": 0, "group_id": "a:group"}
LIVES = 3
CLIENTS = 3
PATIENCE_STEPS = 2_000
TOPIC_DEFAULTS = TopicConfig(segment_bytes=600, index_interval_bytes=100)


class Producer:
    """A client that pipelines Produce requests, and the payloads for which it has no answer yet."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.unanswered: list[list[bytes]] = []

    def produce(self, payloads: list[bytes]) -> None:
        self.unanswered.append(payloads)
        self.client.send(produce(*payloads))

    def acknowledged(self) -> dict[int, bytes]:
        """What has been acknowledged since the last call, by offset."""
        found: dict[int, bytes] = {}
        for answer in self.client.received():
            payloads = self.unanswered.pop(0)
            if "Produce" in answer:
                found.update(zip(answer["Produce"]["offsets"], payloads, strict=True))
        return found


class Group:
    """
    A client that pipelines commits of a growing offset, through one life of the broker after the other.

    @ivar sent: the last offset that it has sent.
    @ivar acknowledged: the last one that was acknowledged, or seen.
    """

    def __init__(self) -> None:
        self.sent = self.acknowledged = 0
        self.client: Client | None = None

    def connect(self, client: Client) -> None:
        self.client = client
        self.unanswered: list[int] = []

    def commit(self) -> None:
        assert self.client is not None
        self.sent += 1
        self.unanswered.append(self.sent)
        self.client.send({"OffsetCommit": {**GROUP, "offset": self.sent}})

    def listen(self) -> None:
        """Take note of what has been acknowledged."""
        assert self.client is not None
        for answer in self.client.received():
            offset = self.unanswered.pop(0)
            if answer == {"OffsetCommit": {"success": True}}:
                self.acknowledged = offset


class Life(Patience):
    """The broker from its start to the next loss of power."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self.environment = environment
        settings = SegmentsSettings(PurePath("/data"), topic_defaults=TOPIC_DEFAULTS)
        store = self.finish(open_store(settings, environment))
        if store.catalog.get("orders") is None:
            self.finish(store.catalog.create("orders", 1, {}))
        offsets = self.finish(topic.open_store(topic.TopicOffsetsSettings(), environment, store))
        self.factory = make_factory(self._listener(store, offsets))
        self.producers = [Producer(self.client()) for _ in range(CLIENTS)]
        self.reader = self.client()

    def _listener(self, store: SegmentStore, offsets: JournaledOffsets) -> Listener:
        config, clock, wall = BrokerConfig(), self.environment.clock, self.environment.wall
        broker = Broker(
            store, offsets, clock, wall,
            topic_defaults=TOPIC_DEFAULTS, config=config, default_partitions=1,
        )  # fmt: skip
        return Listener("door", broker, config, Capacity(config, clock), clock, wall)

    def client(self) -> Client:
        return Client(self.factory)

    def read(self) -> dict[int, bytes]:
        """The whole log, as the protocol shows it."""
        found: dict[int, bytes] = {}
        offset = 0
        while True:
            answer = self.ask(fetch(offset, max_bytes=100))["Fetch"]
            found.update((each["offset"], bytes(each["payload"])) for each in answer["records"])
            if not answer["records"]:
                return found
            offset = answer["next_offset"]

    def ask(self, message: object) -> Any:
        self.reader.send(message)
        for _ in range(PATIENCE_STEPS):
            answers = self.reader.received()
            if self.environment.files.crashed:
                raise SimulatedCrash("whatever it says, nobody is there to say it")
            if answers:
                return answers[0]
            self.environment.clock.advance(0.002)
        raise AssertionError("no answer came")


class SimulationTests(SynchronousTestCase):
    """What clients were told stays true."""

    def test_power_loss(self) -> None:
        """Every acknowledged record and commit is there, and what was read once reads the same for ever."""
        self.patch(journaled, "SNAPSHOT_BYTES_MIN", 1500)
        for seed in seeds(150):
            self.run_lives(seed)

    def run_lives(self, seed: int) -> None:
        chance, environment = Random(seed), simulated_environment(seed)
        promised: dict[int, bytes] = {}
        self.sent, self.group = 0, Group()
        for _ in range(LIVES):
            environment.files.crash_at_call(chance.randint(1, 300))
            with contextlib.suppress(SimulatedCrash):
                life = Life(environment)
                self.check(life, promised, seed)
                self.live(life, promised, chance)
            # A request that was under way may have taken the crash for an error of its own.
            self.flushLoggedErrors(SimulatedCrash)
            environment = environment.after_crash()
        self.check(Life(environment), promised, seed)

    def check(self, life: Life, promised: dict[int, bytes], seed: int) -> None:
        self.check_group(life, seed)
        stored = life.read()
        self.assertEqual({each: stored.get(each) for each in promised}, promised, f"seed {seed}")
        self.assertEqual(sorted(stored), list(range(len(stored))), f"seed {seed}: offsets are dense")
        promised.update(stored)

    def check_group(self, life: Life, seed: int) -> None:
        """The group is at its last acknowledged commit, or at one that was sent later."""
        offset = life.ask({"OffsetFetch": GROUP})["OffsetFetch"]["offset"] or 0
        self.assertIn(offset, range(self.group.acknowledged, self.group.sent + 1), f"seed {seed}")
        self.group.acknowledged = offset
        self.group.connect(life.client())

    def live(self, life: Life, promised: dict[int, bytes], chance: Random) -> None:
        for _ in range(chance.randint(5, 40)):
            producer = chance.choice(life.producers)
            producer.produce([self.payload(chance) for _ in range(chance.randint(1, 3))])
            for _ in range(chance.choice((0, 0, 1, 5))):
                self.group.commit()
            if chance.random() < 0.2:
                # What anyone has seen is as good as promised.
                promised.update(life.read())
            life.environment.clock.advance(chance.choice((0.0, 0.001, 0.005, 35.0)))
            self.group.listen()
            for each in life.producers:
                promised.update(each.acknowledged())

    def payload(self, chance: Random) -> bytes:
        self.sent += 1
        return b"%d " % self.sent + bytes(chance.randrange(40))
