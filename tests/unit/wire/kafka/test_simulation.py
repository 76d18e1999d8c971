"""
A whole broker in one test: idempotent Kafka producers and readers, whose connections break, on a simulated
disk whose power fails, all of it whenever chance has it.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from pathlib import PurePath
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import split_batches
from rustlog.log.codecs import Codec
from rustlog.log.records import decode
from rustlog.storage.segments.store import SegmentsSettings, open_store
from rustlog.testing.broker import TestBroker
from rustlog.testing.disk import SimulatedCrash
from rustlog.testing.environment import SimulatedEnvironment, simulated_environment
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.protocol import make_factory
from tests.seeds import seeds
from tests.unit.test_simulation import PATIENCE_STEPS, TOPIC_DEFAULTS
from tests.unit.wire.kafka.client import KafkaClient, batch_of, fetch_request, produce_request

LIVES = 3
PRODUCERS = 3
IN_FLIGHT_MAX = 5
INIT_PRODUCER_ID = 22


class Life:
    """The broker from its start to the next loss of power."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self.environment = environment
        settings = SegmentsSettings(PurePath("/data"), topic_defaults=TOPIC_DEFAULTS)
        store = self.finish(open_store(settings, environment))
        broker = TestBroker(environment=environment, topic_defaults=TOPIC_DEFAULTS, store=store)
        self.factory = make_factory(broker.listener())
        self.reader = self.client()

    def client(self) -> KafkaClient:
        return KafkaClient(self.factory)

    def finish(self, result: Any) -> Any:
        outcomes: list[Any] = []
        result.addBoth(outcomes.append)
        for _ in range(PATIENCE_STEPS):
            if outcomes:
                return outcomes[0]
            self.environment.clock.advance(0.002)
        raise AssertionError("no answer came")

    def answer(self, client: KafkaClient) -> Any:
        """The answer to the only request of a client."""
        for _ in range(PATIENCE_STEPS):
            if self.environment.files.crashed:
                raise SimulatedCrash("whatever it says, nobody is there to say it")
            answers = client.received()
            if answers:
                return answers[0]
            self.environment.clock.advance(0.002)
        raise AssertionError("no answer came")

    def read(self) -> dict[int, bytes]:
        """The whole log, as the protocol shows it."""
        found: dict[int, bytes] = {}
        offset = 0
        while True:
            self.reader.send_fetch(fetch_request(offset, max_bytes=300))
            ((partition,),) = [topic.partitions for topic in self.answer(self.reader).topics]
            if partition.error_code == ErrorCode.unknown_topic_or_partition:
                return found  # Nobody has written yet.
            assert partition.error_code == 0, partition
            content = b"".join(map(bytes, partition.records))
            if not content:
                return found
            for batch in split_batches(content):
                for record in decode(batch):
                    assert record.offset is not None and record.value is not None
                    found[record.offset] = record.value
                offset = batch.next_offset


class Producer:
    """
    An idempotent producer: it sends again what was not acknowledged, in order, to whatever broker there is.

    @ivar pending: sequence numbers and values, in order, without acknowledgement.
    @ivar in_flight: how many of them have been sent on this connection.
    """

    def __init__(self, name: str, chance: Random) -> None:
        self.name = name
        self.chance = chance
        self.client: KafkaClient | None = None
        self.producer_id = -1
        self.sequence = 0
        self.pending: deque[tuple[int, list[bytes]]] = deque()
        self.in_flight = 0

    def connect(self, life: Life) -> None:
        self.client, self.in_flight = life.client(), 0
        if self.producer_id == -1:
            self.client.send_entity(
                INIT_PRODUCER_ID,
                4,
                transactional_id=None,
                transaction_timeout=0,
                producer_id=-1,
                producer_epoch=-1,
            )
            response = life.answer(self.client)
            assert response.error_code is ErrorCode.none, response
            self.producer_id = response.producer_id

    def disconnect(self) -> None:
        if self.client is not None:
            self.client.disconnect()
            self.client = None

    def produce(self, values: list[bytes]) -> None:
        self.pending.append((self.sequence, values))
        self.sequence += len(values)

    def send(self) -> None:
        """As much as may be under way at once."""
        assert self.client is not None
        while self.in_flight < min(IN_FLIGHT_MAX, len(self.pending)):
            sequence, values = self.pending[self.in_flight]
            codec = self.chance.choice((Codec.NONE, Codec.ZSTD))
            batch = batch_of(
                *values, codec=codec, producer_id=self.producer_id, producer_epoch=0, base_sequence=sequence
            )
            self.client.send_produce(produce_request(batch))
            self.in_flight += 1

    def acknowledged(self) -> dict[int, bytes]:
        """What has been acknowledged since the last call, by offset."""
        assert self.client is not None
        found: dict[int, bytes] = {}
        for response in self.client.received():
            (result,) = response.topics[0].partitions
            assert result.error_code == 0, (self.name, result, self.pending)
            _, values = self.pending.popleft()
            self.in_flight -= 1
            found.update(enumerate(values, result.base_offset))
        return found


class SimulationTests(SynchronousTestCase):
    """What clients were told stays true, and what they sent twice is there once."""

    def test_power_loss_and_lost_connections(self) -> None:
        """Every acknowledged record is at its offset, none is there twice, and what was read once stays."""
        for seed in seeds(20):
            self.run_lives(seed)

    def run_lives(self, seed: int) -> None:
        self.seed, chance = seed, Random(seed)
        environment = simulated_environment(seed)
        producers = [Producer(f"{seed}/{number}", chance) for number in range(PRODUCERS)]
        self.sent: list[bytes] = []
        promised: dict[int, bytes] = {}
        for _ in range(LIVES):
            environment.files.crash_at_call(chance.randint(20, 400))
            with contextlib.suppress(SimulatedCrash):
                life = Life(environment)
                self.check(life, promised)
                self.live(life, producers, promised, chance)
            for each in producers:
                with contextlib.suppress(SimulatedCrash):
                    each.disconnect()
            self.flushLoggedErrors(SimulatedCrash)
            environment = environment.after_crash()
        life = Life(environment)
        self.check(life, promised)
        self.settle(life, producers, promised)

    def live(self, life: Life, producers: list[Producer], promised: dict[int, bytes], chance: Random) -> None:
        for _ in range(chance.randint(10, 40)):
            producer = chance.choice(producers)
            if producer.client is None:
                producer.connect(life)
            producer.produce([self.value(chance) for _ in range(chance.randint(1, 3))])
            producer.send()
            life.environment.clock.advance(chance.choice((0.0, 0.001, 0.005, 35.0)))
            if chance.random() < 0.2:
                # What anyone has seen is as good as promised.
                promised.update(life.read())
            for each in producers:
                self.hear(life, each, promised)
            if chance.random() < 0.1:
                producer.disconnect()  # Its answers, if there are any, are lost.

    def hear(self, life: Life, producer: Producer, promised: dict[int, bytes]) -> None:
        if producer.client is None:
            return
        if life.environment.files.crashed:
            raise SimulatedCrash("whatever it says, nobody is there to say it")
        promised.update(producer.acknowledged())
        producer.send()

    def settle(self, life: Life, producers: list[Producer], promised: dict[int, bytes]) -> None:
        """In the end everything gets through, once, and in the order of each producer."""
        for each in producers:
            if each.client is None:
                each.connect(life)
            each.send()
        for _ in range(PATIENCE_STEPS):
            for each in producers:
                self.hear(life, each, promised)
            if not any(each.pending for each in producers):
                break
            life.environment.clock.advance(0.002)
        self.check(life, promised)
        stored = life.read()
        self.assertEqual(Counter(stored.values()), Counter(self.sent), f"seed {self.seed}")

    def check(self, life: Life, promised: dict[int, bytes]) -> None:
        stored = life.read()
        self.assertEqual({each: stored.get(each) for each in promised}, promised, f"seed {self.seed}")
        self.assertEqual(sorted(stored), list(range(len(stored))), f"seed {self.seed}: offsets are dense")
        twice = [value for value, count in Counter(stored.values()).items() if count > 1]
        self.assertEqual(twice, [], f"seed {self.seed}: written twice")
        promised.update(stored)

    def value(self, chance: Random) -> bytes:
        self.sent.append(b"%d " % len(self.sent) + bytes(chance.randrange(40)))
        return self.sent[-1]
