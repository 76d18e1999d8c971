"""Tests for L{rustlog.wire.fluvio.streams}: what consumers read, at a bare connection."""

from __future__ import annotations

from typing import Any

from rustlog.errors import DamagedLog
from rustlog.log.batch import build_batch
from rustlog.log.codecs import Codec
from rustlog.log.records import build
from rustlog.model import Record, TopicPartition
from rustlog.settings import BrokerConfig
from rustlog.testing.broker import CONTEXT
from rustlog.testing.delayed import DelayedLogStore
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.errors import (
    FETCH_SESSION_NOT_FOUND,
    NONE,
    NOT_LEADER_FOR_PARTITION,
    OFFSET_OUT_OF_RANGE,
    TOPIC_DELETED,
    offset_evicted,
    smart_module_not_found,
)
from rustlog.wire.fluvio.fetching import UpdateOffsetsRequest
from rustlog.wire.fluvio.settings import FluvioSettings
from rustlog.wire.fluvio.smartmodules import SmartModule
from tests.unit.wire.fluvio.client import FluvioCase, FluvioClient, values_of


class ReadingTests(FluvioCase):
    def test_from_an_offset(self) -> None:
        """A stream begins with the batch that has the offset, and has all that was there."""
        self.append(b"a", b"b")
        self.append(b"c")
        number = self.client.stream(1)
        ((correlation_id, response),) = self.client.received()
        self.assertEqual(correlation_id, number)
        self.assertEqual((response.topic, response.partition, response.error), ("orders", 0, NONE))
        self.assertEqual((response.high_watermark, response.log_start_offset), (3, 0))
        self.assertEqual(values_of(response), [(0, b"a"), (1, b"b"), (2, b"c")])
        self.assertNotEqual(response.stream_id, 0)

    def test_nothing_there(self) -> None:
        """At the end of the log a stream says nothing until there is something."""
        self.client.stream(0)
        self.clock.advance(1000)
        self.assertEqual(self.client.received(), [])
        self.append(b"a")
        self.assertEqual(values_of(self.client.one()), [(0, b"a")])

    def test_other_partitions(self) -> None:
        """What comes to another partition is another stream's."""
        self.client.stream(0, partition=1)
        self.append(b"a")
        self.assertEqual(self.client.received(), [])

    def test_flow_control(self) -> None:
        """The next answer comes when the client has said that it wants the record behind the last."""
        self.client.stream(0)
        self.append(b"a", b"b")
        stream_id = self.client.one().stream_id
        for value in (b"c", b"d"):
            self.append(value)
        self.assertEqual(self.client.received(), [])
        self.client.acknowledge(1, stream_id)
        (answer,) = self.client.received()
        self.assertEqual(answer[1].streams, ((stream_id, NONE),))
        acknowledged = self.client.acknowledge(2, stream_id)
        answers = dict(self.client.received())
        self.assertEqual(answers.pop(acknowledged).streams, ((stream_id, NONE),))
        (response,) = answers.values()
        self.assertEqual(values_of(response), [(2, b"c"), (3, b"d")])
        self.assertEqual(response.stream_id, stream_id)

    def test_acknowledgement_without_need(self) -> None:
        """A client may say how far it is whenever it likes."""
        self.client.stream(0)
        for offset in (-1, 0, 7):
            self.client.acknowledge(offset, 1)
        self.assertEqual([each.streams for _, each in self.client.received()], [((1, NONE),)] * 3)
        self.append(b"a")
        self.assertEqual(values_of(self.client.one()), [(0, b"a")])

    def test_unknown_stream(self) -> None:
        """To acknowledge what is not there is an error, of that stream only."""
        self.client.stream(0)
        request = UpdateOffsetsRequest(())
        self.assertEqual(self.client.call(apis.UPDATE_OFFSETS, request).streams, ())
        self.client.acknowledge(0, 99)
        self.assertEqual(self.client.one().streams, ((99, FETCH_SESSION_NOT_FOUND),))

    def test_streams_have_their_own_numbers(self) -> None:
        """Each stream of a connection has an id of its own; other connections have theirs."""
        self.append(b"a")
        self.append(b"b", partition=1)
        for index in (0, 1):
            self.client.stream(0, partition=index)
        other = self.world.fluvio_client()
        other.stream(0)
        numbers = [each.stream_id for _, each in self.client.received()]
        self.assertEqual(numbers, [1, 2])
        self.assertEqual(other.one().stream_id, 1)

    def test_silent_stream(self) -> None:
        """A stream whose client does not acknowledge stops neither other streams nor requests."""
        self.append(b"a")
        self.client.stream(0)
        self.client.stream(0, partition=1)
        self.client.received()
        for index in range(20):
            self.append(b"b%d" % index, partition=1)
            response = self.client.one()
            self.assertEqual(values_of(response), [(index, b"b%d" % index)])
            self.client.acknowledge(index + 1, response.stream_id)
            self.client.received()
            self.assertEqual(self.client.produce(b"x").error, NONE)
        self.assert_nothing_held()

    def test_max_bytes(self) -> None:
        """An answer has no more than is wanted, in whole batches, but one at least."""
        for _ in range(4):
            self.append(b"x" * 1000)
        for max_bytes, count in ((-1, 1), (1, 1), (2500, 2), (1_000_000, 4)):
            self.client.stream(0, max_bytes=max_bytes)
            self.assertEqual(len(values_of(self.client.one())), count, max_bytes)

    def test_max_bytes_of_the_broker(self) -> None:
        """However much a client wants, the broker has a limit of its own."""
        self.start(settings=FluvioSettings(stream_max_bytes=2500))
        for _ in range(4):
            self.append(b"x" * 1000)
        self.client.stream(0, max_bytes=2**31 - 1)
        self.assertEqual(len(values_of(self.client.one())), 2)

    def test_all_of_it(self) -> None:
        """In small answers, everything comes once and in order."""
        for index in range(50):
            self.append(b"%d" % index, b"%d'" % index)
        self.client.stream(3, max_bytes=300)
        found: list[Any] = []
        for _ in range(200):
            pushed = [each for _, each in self.client.received() if hasattr(each, "batches")]
            if not pushed:
                break
            (response,) = pushed
            found += values_of(response)
            self.client.acknowledge(found[-1][0] + 1, response.stream_id)
        expected = [b"%d%s" % (index, more) for index in range(50) for more in (b"", b"'")]
        self.assertEqual(found, list(enumerate(expected))[2:])

    def test_compressed(self) -> None:
        """What was compressed by others is shown."""
        for codec in Codec:
            self.append(b"x" * 100, codec=codec)
        self.client.stream(0)
        self.assertEqual(values_of(self.client.one()), [(index, b"x" * 100) for index in range(5)])

    def test_gaps(self) -> None:
        """Where offsets have gaps, clients see them, and need acknowledge no more than they have seen."""
        plain = build([Record(b"a"), Record(b"b")], now_ms=1)
        times = {"base_timestamp": 1, "max_timestamp": 1}
        gapped = build_batch(plain.payload, record_count=2, last_offset_delta=9, **times)
        name = TopicPartition("orders", 0)
        self.world.broker.produce(CONTEXT, [(name, gapped)])
        self.append(b"c")
        self.client.stream(0, max_bytes=1)
        response = self.client.one()
        self.assertEqual(values_of(response), [(0, b"a"), (1, b"b")])
        self.client.acknowledge(2, response.stream_id)
        pushed = [each for _, each in self.client.received() if hasattr(each, "batches")]
        self.assertEqual([values_of(each) for each in pushed], [[(10, b"c")]])

    def test_memory_is_given_back(self) -> None:
        """Whatever a stream has sent or not, it holds nothing afterwards."""
        self.client.stream(0)
        self.assert_nothing_held()
        self.append(b"a" * 100_000)
        self.client.transport.clear()
        self.assert_nothing_held()


class EndingTests(FluvioCase):
    def assert_over(self, error: Any, **want: Any) -> None:
        """A stream has but one answer, and is not there any more."""
        number = self.client.stream(**want)
        ((correlation_id, response),) = self.client.received()
        self.assertEqual((correlation_id, response.error), (number, error))
        self.assertEqual(response.batches, ())
        self.append(b"later")
        self.assertEqual(self.client.received(), [])
        self.assertEqual(len(self.client.connection.services.streams), 0)

    def test_beyond_the_end(self) -> None:
        """An offset that is not there yet."""
        self.assert_over(OFFSET_OUT_OF_RANGE, offset=1)

    def test_before_the_beginning(self) -> None:
        """One that is not there any more, and where to go on."""
        for value in (b"a", b"b", b"c"):
            self.append(value)
        name = TopicPartition("orders", 0)
        self.world.broker.administration.delete_records(CONTEXT, name, 2)
        self.assert_over(offset_evicted(1, 2), offset=1)
        self.assert_over(offset_evicted(-5, 2), offset=-5)

    def test_deleted_on_the_way(self) -> None:
        """What is deleted before a stream gets there."""
        self.append(b"a")
        self.client.stream(0)
        stream_id = self.client.one().stream_id
        for value in (b"b", b"c"):
            self.append(value)
        self.world.broker.administration.delete_records(CONTEXT, TopicPartition("orders", 0), 2)
        self.client.acknowledge(1, stream_id)
        answers = [each for _, each in self.client.received()]
        self.assertEqual({each.error for each in answers if hasattr(each, "batches")}, {offset_evicted(1, 2)})

    def test_unknown(self) -> None:
        """No such topic, and no such partition."""
        self.assert_over(NOT_LEADER_FOR_PARTITION, topic="nowhere")
        self.assert_over(NOT_LEADER_FOR_PARTITION, partition=2)
        self.assert_over(NOT_LEADER_FOR_PARTITION, partition=2**32 - 1)

    def test_smart_modules(self) -> None:
        """A stream without the module that was asked for would be another one."""
        modules = (SmartModule("upper"), SmartModule("lower"))
        self.assert_over(smart_module_not_found("upper"), smart_modules=modules)

    def test_topic_deleted(self) -> None:
        """Who reads, waits, or does not acknowledge, hears that the topic is gone."""
        self.append(b"a")
        self.client.stream(0)
        self.client.stream(1)
        self.client.received()
        self.client.delete("orders")
        self.clock.advance(1)
        pushed = [each for _, each in self.client.received() if hasattr(each, "batches")]
        self.assertEqual([each.error for each in pushed], [TOPIC_DELETED] * 2)
        self.assertEqual(len(self.client.connection.services.streams), 0)
        self.assert_nothing_held()

    def test_topic_made_again(self) -> None:
        """Another topic of the same name is not what was read."""
        self.client.stream(0)
        self.world.broker.delete_topic(CONTEXT, "orders")
        self.world.create("orders")
        self.append(b"a")
        self.assertEqual(self.client.one().error, TOPIC_DELETED)

    def test_damaged_log(self) -> None:
        """What can not be read is told, and does not concern others."""
        self.append(b"a")
        name = TopicPartition("orders", 0)
        damaged = DamagedLog(name, 0, "broken")
        self.patch(self.world.broker, "fetch", lambda *_, **__: [damaged])
        self.client.stream(0)
        self.assertEqual(self.client.one().error.name, "StorageError")

    def test_defect(self) -> None:
        """A defect of ours ends the stream, with a line in the log, and not the connection."""
        self.patch(self.world.broker, "fetch", lambda *_, **__: 1 / 0)
        self.client.stream(0)
        self.assertEqual(self.client.one().error.name, "UnknownServerError")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertTrue(self.client.transport.is_reading)
        self.assert_nothing_held()


class ManyStreamsTests(FluvioCase):
    def setUp(self) -> None:
        self.start(settings=FluvioSettings(streams_max=3))

    def test_forgotten_stream_makes_room(self) -> None:
        """Of too many streams, the one that was not heard of for the longest time has to go."""
        self.append(b"a")
        for _ in range(3):
            self.client.stream(0)
        self.client.received()
        self.client.acknowledge(0, 1)  # It is alive, if slow.
        self.client.received()
        self.client.stream(0)
        responses = [each for _, each in self.client.received()]
        outcomes = [(each.stream_id, each.error.name) for each in responses]
        self.assertEqual(outcomes, [(2, "Other"), (4, "None")])
        self.assertIn("streams.max=3", responses[0].error.facts[0])

    def test_no_room(self) -> None:
        """Where all wait for data, there is no way to tell which one is not wanted any more."""
        for _ in range(3):
            self.client.stream(0)
        self.client.stream(0)
        response = self.client.one()
        self.assertEqual((response.stream_id, response.error.name), (0, "Other"))
        self.append(b"a")
        self.assertEqual(len(self.client.received()), 3)


class MemoryTests(FluvioCase):
    """What clients that do not read can make the broker hold."""

    def setUp(self) -> None:
        self.start(BrokerConfig(queued_max_request_bytes=32 * 1024 * 1024))

    def test_client_that_does_not_read(self) -> None:
        """Of a connection that is full nothing more is read from the log; afterwards all goes on."""
        for index in (0, 1):
            self.append(b"x" * 200_000, partition=index)
        client = self.world.fluvio_client(buffer_size=100_000)
        client.stream(0)
        used = self.world.capacity.budget.answers.used
        self.assertGreater(used, 50_000)
        client.stream(0, partition=1)
        self.append(b"y")
        self.assertEqual(self.world.capacity.budget.answers.used, used)
        while client.connection.is_blocked:
            client.transport.client_reads()
        responses = [each for _, each in client.received()]
        self.assertEqual([each.partition for each in responses], [0, 1])
        self.assert_nothing_held()

    def test_one_that_never_reads_is_cut_off(self) -> None:
        """Who holds memory and does nothing loses the connection, and the memory is free again."""
        self.append(b"x" * 200_000)
        client = self.world.fluvio_client(buffer_size=100_000)
        client.stream(0)
        self.clock.pump([1] * 40)
        self.assertTrue(client.transport.disconnected)
        client.settle()
        self.assert_nothing_held()

    def test_streams_wait_for_memory(self) -> None:
        """When all memory is in use, streams wait for their turn, and requests without answers do not."""
        pool = self.world.capacity.budget.answers
        taken = 16 * 1024 * 1024
        self.assertIsNone(pool.reserve(taken))
        self.append(b"a")
        for _ in range(3):
            self.client.stream(0)
        self.assertEqual(self.client.received(), [])
        self.assertTrue(pool.is_contended)
        self.assertEqual(self.client.produce(b"b").error, NONE)
        pool.give_back(taken)
        self.clock.pump([0] * 10)
        self.assertEqual(len(self.client.received()), 3)
        self.assert_nothing_held()

    def test_gone_while_waiting_for_memory(self) -> None:
        """Who is gone waits no longer."""
        pool = self.world.capacity.budget.answers
        self.assertIsNone(pool.reserve(16 * 1024 * 1024))
        self.append(b"a")
        self.client.stream(0)
        self.client.disconnect()
        self.assertFalse(pool.is_contended)
        pool.give_back(16 * 1024 * 1024)
        self.assert_nothing_held()


class DisconnectTests(FluvioCase):
    def watchers(self) -> int:
        """How many wait for what comes to the log."""
        return len(self.world.memory._watchers._listeners)

    def test_lost(self) -> None:
        """A connection that is gone leaves nothing behind."""
        self.append(b"a")
        for offset in (0, 1):
            self.client.stream(offset)
        self.assertEqual(self.watchers(), 1)
        self.client.disconnect()
        self.assertEqual(self.watchers(), 0)
        self.append(b"b")
        self.assert_nothing_held()

    def test_half_closed(self) -> None:
        """Who will say nothing more can acknowledge nothing."""
        self.client.stream(0)
        self.client.connection.readConnectionLost()
        self.assertEqual(self.watchers(), 0)
        self.append(b"a")
        self.assertEqual(self.client.transport.value(), b"")

    def test_drain(self) -> None:
        """When the broker stops, what was asked is answered, and streams end with the connection."""
        self.append(b"a")
        self.client.stream(0)
        self.client.received()
        drained = self.world.fluvio.drain()
        self.assertEqual(self.watchers(), 0)
        self.client.settle()
        self.successResultOf(drained)
        self.assert_nothing_held()


class LateStoreTests(FluvioCase):
    """The same over a store that never answers at once."""

    def setUp(self) -> None:
        self.start(
            wrap=lambda store, environment: DelayedLogStore(store, environment.clock, environment.random)
        )

    def append(self, *values: bytes | None, **more: Any) -> None:
        batch = build([Record(each) for each in values], now_ms=1)
        self.world.broker.produce(CONTEXT, [(TopicPartition("orders", 0), batch)])

    def pass_time(self) -> None:
        self.clock.pump([0.01] * 200)

    def test_live(self) -> None:
        """Everything comes once and in order, though data come while they are read."""
        self.client.stream(0, max_bytes=200)
        found: list[Any] = []
        for index in range(60):
            if index < 30:
                self.append(b"%d" % index)
            self.clock.pump([0.01] * 15)
            for _, each in self.client.received():
                if hasattr(each, "batches"):
                    found += values_of(each)
                    self.client.acknowledge(found[-1][0] + 1, each.stream_id)
        self.assertEqual(found, [(index, b"%d" % index) for index in range(30)])
        self.pass_time()
        self.assert_nothing_held()

    def test_gone_during_a_read(self) -> None:
        """What comes too late for a client is given back."""
        self.append(b"a")
        self.pass_time()
        self.client.stream(0)
        self.client.disconnect()
        self.pass_time()
        self.assert_nothing_held()

    def test_deleted_during_a_read(self) -> None:
        """A topic may go while it is read."""
        self.append(b"a")
        self.pass_time()
        self.client.stream(1)
        self.world.broker.delete_topic(CONTEXT, "orders")
        self.pass_time()
        self.assertEqual(self.client.one().error, TOPIC_DELETED)

    def test_two_clients(self) -> None:
        """Each has its own."""
        clients: list[FluvioClient] = [self.world.fluvio_client() for _ in range(2)]
        for each in clients:
            each.stream(0)
        self.append(b"a")
        self.pass_time()
        for each in clients:
            self.assertEqual(values_of(each.one()), [(0, b"a")])
