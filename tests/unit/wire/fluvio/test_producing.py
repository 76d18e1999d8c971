"""Tests for L{rustlog.wire.fluvio.handlers.producing}: what producers send, at a bare connection."""

from __future__ import annotations

from typing import Any

from rustlog.log import records
from rustlog.log.batch import split_batches
from rustlog.log.codecs import Codec
from rustlog.model import CONSUMER_OFFSETS, FetchWant
from rustlog.settings import TopicConfig
from rustlog.testing.broker import CONTEXT
from rustlog.testing.delayed import DelayedLogStore
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.errors import (
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_LEADER_FOR_PARTITION,
    PERMISSION_DENIED,
    request_timed_out,
    smart_module_not_found,
)
from rustlog.wire.fluvio.primitives import Writer
from rustlog.wire.fluvio.produce import (
    ProduceRequest,
    ProduceResponse,
    TopicRecords,
    TopicResult,
    write_described_request,
)
from rustlog.wire.fluvio.smartmodules import SmartModule
from tests.unit.wire.fluvio.client import FluvioCase, produce_request, records_of


class ProducingCase(FluvioCase):
    def stored(self, partition: int = 0) -> list[bytes | None]:
        """The values in the log."""
        (found,) = self.world.broker.fetch(  # type: ignore[misc]
            CONTEXT, [FetchWant("orders", partition, 0, 2**20)], max_bytes=2**20
        )
        values = [
            record.value
            for each in found.slices
            for batch in split_batches(each.buffer())
            for record in records.decode(batch)
        ]
        found.release()
        return values

    def ask(self, request: ProduceRequest, version: int | None = None) -> ProduceResponse:
        response: ProduceResponse = self.client.call(apis.PRODUCE, request, version)
        return response


class ProduceTests(ProducingCase):
    def test_all_versions(self) -> None:
        """Every version is answered with the offset of the first record."""
        for index, version in enumerate(apis.PRODUCE.accepted):
            request = produce_request((0, records_of(b"a", b"b")))
            (topic,) = self.ask(request, version).topics
            (result,) = topic.partitions
            self.assertEqual((result.index, result.error, result.base_offset), (0, NONE, 2 * index))
            if version >= 5:
                self.assertEqual(result.log_start_offset, 0)
        self.assertEqual(self.stored(), [b"a", b"b"] * len(apis.PRODUCE.accepted))

    def test_isolation(self) -> None:
        """Both promise the same."""
        for acks in (1, -1):
            self.assertEqual(self.client.produce(b"a", acks=acks).error, NONE)

    def test_compressed(self) -> None:
        """What is compressed stays so."""
        for codec in Codec:
            batch = records_of(b"x" * 1000, codec=codec)
            self.assertEqual(self.ask(produce_request((0, batch))).topics[0].partitions[0].error, NONE)
        self.assertEqual(self.stored(), [b"x" * 1000] * 5)

    def test_repeated_partitions(self) -> None:
        """Each entry has its answer, in order, however often a partition is named."""
        entries = [(index % 2, records_of(b"%d" % index)) for index in range(66)]
        (topic,) = self.ask(produce_request(*entries)).topics
        found = [(each.index, each.base_offset) for each in topic.partitions]
        self.assertEqual(found, [(index % 2, index // 2) for index in range(66)])
        self.assertEqual(self.stored(1), [b"%d" % index for index in range(1, 66, 2)])

    def test_several_batches_in_an_entry(self) -> None:
        """They are appended in their order, and the answer is where the first went."""
        result = self.ask(produce_request((0, records_of(b"a", b"b") + records_of(b"c")))).topics[0]
        self.assertEqual(result.partitions[0].base_offset, 0)
        self.assertEqual(self.stored(), [b"a", b"b", b"c"])

    def test_empty(self) -> None:
        """A topic without partitions is answered so, even one that is not there; and so is nothing."""
        self.assertEqual(self.ask(produce_request()).topics, (TopicResult("orders", ()),))
        self.assertEqual(self.ask(produce_request(topic="nope")).topics, (TopicResult("nope", ()),))
        self.assertEqual(self.ask(ProduceRequest(())).topics, ())

    def test_several_topics(self) -> None:
        """Answers have the order of the request."""
        self.world.create("more")
        request = produce_request((0, records_of(b"a")))
        more = produce_request((0, records_of(b"b")), topic="more")
        response = self.ask(ProduceRequest(request.topics + more.topics + request.topics))
        found = [(topic.name, topic.partitions[0].base_offset) for topic in response.topics]
        self.assertEqual(found, [("orders", 0), ("more", 0), ("orders", 1)])


class RefusalTests(ProducingCase):
    def refusal(self, *entries: tuple[int, bytes], **more: Any) -> Any:
        """The code of the only entry, of which nothing is stored."""
        entries = entries or ((0, records_of(b"a")),)
        (result,) = self.ask(produce_request(*entries, **more)).topics[0].partitions
        self.assertEqual(result.base_offset, -1)
        self.assertEqual(self.stored(), [])
        return result.error

    def test_unknown(self) -> None:
        """No such topic or partition; none is made."""
        self.assertEqual(self.refusal(topic="nope"), NOT_LEADER_FOR_PARTITION)
        self.assertEqual(self.refusal((7, records_of(b"a"))), NOT_LEADER_FOR_PARTITION)
        self.assertEqual([each.name for each in self.world.broker.topics(CONTEXT)], ["orders"])

    def test_internal(self) -> None:
        """What the broker keeps for itself is not written to."""
        self.world.memory.catalog.create(CONSUMER_OFFSETS, 1, {}, internal=True)
        self.assertEqual(self.refusal(topic=CONSUMER_OFFSETS), PERMISSION_DENIED)

    def test_smart_modules(self) -> None:
        """Records that a module should have changed are not stored as they are."""
        error = self.refusal(smart_modules=(SmartModule("upper"),))
        self.assertEqual(error, smart_module_not_found("upper"))

    def test_transactions(self) -> None:
        """There are none."""
        self.assertIn("transactions", self.refusal(transactional_id="t").facts[0])

    def test_bad_isolation(self) -> None:
        """There are two."""
        self.assertIn("isolation", self.refusal(acks=0).facts[0])

    def test_too_large(self) -> None:
        """A batch that is larger than it may be, when it is plain."""
        self.start(topic_defaults=TopicConfig(max_message_bytes=100))
        self.assertEqual(self.refusal((0, records_of(b"x" * 100))), MESSAGE_TOO_LARGE)

    def test_corrupt(self) -> None:
        """Bytes that are no batch, or not the one that they claim to be."""
        good = records_of(b"abc")
        for bad in (b"", b"x", good[:-1], good[:-1] + b"\1", good[:10]):
            self.assertEqual(self.refusal((0, bad)).name, "Other", bad)

    def test_one_of_many(self) -> None:
        """One's error is not the others'; of an entry that has an error nothing is kept."""
        good = records_of(b"a")
        (topic,) = self.ask(produce_request((0, good), (0, good + b"x"), (9, good), (1, good))).topics
        found = [(each.index, each.error.name, each.base_offset) for each in topic.partitions]
        expected = [(0, "None", 0), (0, "Other", -1), (9, "NotLeaderForPartition", -1), (1, "None", 0)]
        self.assertEqual(found, expected)
        self.assertEqual(self.stored(), [b"a"])


class LateTests(ProducingCase):
    """Over a store that does not answer at once."""

    def setUp(self) -> None:
        self.start(
            wrap=lambda store, environment: DelayedLogStore(store, environment.clock, environment.random)
        )

    def test_in_order(self) -> None:
        """Many at once are worked on together, and answered in order."""
        asked = [
            self.client.request(apis.PRODUCE, produce_request((0, records_of(b"%d" % index))))
            for index in range(10)
        ]
        self.clock.advance(0.2)
        answers = self.client.received()
        self.assertEqual([number for number, _ in answers], asked)
        offsets = [each.topics[0].partitions[0].base_offset for _, each in answers]
        self.assertEqual(offsets, list(range(10)))

    def test_acknowledgements_overtake_nobody_but_do_not_wait(self) -> None:
        """A stream goes on while its client waits for a produce request to be answered."""
        self.client.request(apis.PRODUCE, produce_request((0, records_of(b"a"))))
        self.clock.pump([0.01] * 30)
        self.client.received()
        self.client.stream(0)
        self.clock.pump([0.01] * 30)
        stream_id = self.client.one().stream_id
        stream = self.client.connection.services.streams.find(stream_id)
        self.client.request(apis.PRODUCE, produce_request((0, records_of(b"b"))))
        self.client.acknowledge(1, stream_id)
        self.assertFalse(stream.is_silent)

    def test_too_late(self) -> None:
        """Who waits for the commit is told when it takes too long; the others wait."""
        for acks, expected in ((-1, [request_timed_out(1)]), (1, [])):
            self.client.request(
                apis.PRODUCE, produce_request((1, records_of(b"a")), acks=acks, timeout_ms=1)
            )
            self.clock.advance(0.001)
            found = [each.topics[0].partitions[0].error for _, each in self.client.received()]
            self.assertEqual(found, expected)
        self.clock.advance(1)
        self.assertEqual(len(self.client.received()), 1)

    def test_in_time(self) -> None:
        """No timer is left behind by one that was in time."""
        self.client.request(apis.PRODUCE, produce_request((1, records_of(b"a")), acks=-1, timeout_ms=9000))
        self.clock.advance(0.5)
        self.assertEqual(self.client.one().topics[0].partitions[0].error, NONE)
        self.assert_nothing_held()

    def test_gone(self) -> None:
        """What was sent by one who is gone is kept, and nothing else is."""
        self.client.request(apis.PRODUCE, produce_request((1, records_of(b"a")), acks=-1, timeout_ms=9000))
        self.client.disconnect()
        self.clock.advance(10)
        self.assert_nothing_held()

    def test_drain(self) -> None:
        """When the broker stops, what was received is answered first."""
        self.client.request(apis.PRODUCE, produce_request((1, records_of(b"a"))))
        drained = self.world.fluvio.drain()
        self.clock.advance(0.5)
        self.assertEqual(self.client.one().topics[0].partitions[0].error, NONE)
        self.client.disconnect()
        self.successResultOf(drained)


class LayoutTests(ProducingCase):
    def test_layout_of_the_description(self) -> None:
        """Version 7 as it is described elsewhere, without a size before the batch, is understood."""
        topic = TopicRecords("orders", produce_request((0, records_of(b"a"))).topics[0].partitions)
        writer = Writer()
        write_described_request(writer, ProduceRequest((topic,), timeout_ms=30000))
        number = self.client.send_body(0, 7, writer.whole())
        self.client.asked[number] = apis.PRODUCE, 7
        self.assertEqual(self.client.one().topics[0].partitions[0].base_offset, 0)
        self.assertEqual(self.stored(), [b"a"])
