"""Tests for L{rustlog.wire.rustlog.handlers}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import (
    Closed,
    CorruptBatch,
    InvalidGroup,
    OffsetOutOfRange,
    PartitionNotFound,
    RecordTooLarge,
    StorageFull,
    TopicNotFound,
)
from rustlog.log.batch import CONTROL_BIT, RecordBatch, build_batch
from rustlog.log.codecs import Codec
from rustlog.log.records import build
from rustlog.model import Appended, Fetched, Record, TopicPartition
from rustlog.storage.slices import MemorySlice
from rustlog.wire.rustlog.codec import encode_response
from rustlog.wire.rustlog.handlers import Handlers
from rustlog.wire.rustlog.messages import (
    FRAME_BYTES_MAX,
    CreateTopicRequest,
    CreateTopicResponse,
    FetchRequest,
    FetchResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from rustlog.wire.rustlog.reading import DoesNotFit
from rustlog.wire.rustlog.sizes import PRODUCE_RECORDS_MAX
from tests.unit.wire.harness import CONTEXT, World


class HandlersCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders", 2)
        self.handlers = Handlers(self.world.broker, self.world.environment.wall)

    def ask(self, request: Any) -> Any:
        """The response, which must be there at once."""
        result = self.handlers.handle(CONTEXT, request)
        return self.successResultOf(result) if isinstance(result, Deferred) else result

    def refused(self, request: Any, error: type[Exception]) -> Exception:
        """The error, whether raised or told later."""
        try:
            result = self.handlers.handle(CONTEXT, request)
        except error as raised:
            return raised
        self.assertIsInstance(result, Deferred)
        return self.failureResultOf(result, error).value

    def produce(self, *payloads: bytes) -> None:
        self.ask(ProduceRequest("orders", 0, list(payloads)))

    def append(self, batch: RecordBatch) -> None:
        """As another protocol would."""
        (appended,) = self.world.memory.append([(self.world.memory.partition("orders", 0), batch)])
        self.assertIsInstance(appended, Appended)

    def fetch(self, offset: int = 0, max_bytes: int = 2**20, group: str | None = None) -> FetchResponse:
        response = self.ask(FetchRequest("orders", 0, offset, max_bytes, group))
        self.assertIsInstance(response, FetchResponse)
        return response

    def payloads(self, *args: Any, **keywords: Any) -> list[bytes]:
        return [each.payload for each in self.fetch(*args, **keywords).records]


class ProduceTests(HandlersCase):
    def test_offsets(self) -> None:
        """Records get offsets in their order, one after the other."""
        self.assertEqual(self.ask(ProduceRequest("orders", 0, [b"a", b"b"])), ProduceResponse([0, 1]))
        self.assertEqual(self.ask(ProduceRequest("orders", 0, [b"c"])), ProduceResponse([2]))
        self.assertEqual(self.ask(ProduceRequest("orders", 1, [b"d"])), ProduceResponse([0]))

    def test_one_batch(self) -> None:
        """The records of a request become one batch, with the time of day."""
        seen = []
        original = self.world.memory.append
        self.patch(self.world.memory, "append", lambda entries: seen.extend(entries) or original(entries))
        self.produce(b"a", b"b", b"c")
        ((_, batch),) = seen
        self.assertEqual(
            (batch.record_count, batch.base_timestamp), (3, self.world.environment.wall.now_ms())
        )

    def test_no_records(self) -> None:
        """To produce nothing is allowed, where there is something to produce to."""
        self.assertEqual(self.ask(ProduceRequest("orders", 0, [])), ProduceResponse([]))
        self.refused(ProduceRequest("orders", 2, []), PartitionNotFound)
        self.refused(ProduceRequest("nothing", 0, []), PartitionNotFound)

    def test_unknown_partition(self) -> None:
        """Topics and partitions must exist."""
        error = self.refused(ProduceRequest("orders", 99, [b"a"]), PartitionNotFound)
        self.assertEqual(str(error), "partition not found: topic=orders, partition=99")
        self.refused(ProduceRequest("nothing", 0, [b"a"]), PartitionNotFound)

    def test_topic_deleted_meanwhile(self) -> None:
        """A topic that was deleted while the request was under way is not found either."""
        self.patch(self.world.memory, "append", lambda entries: [TopicNotFound("orders")])
        self.refused(ProduceRequest("orders", 0, [b"a"]), PartitionNotFound)

    def test_store_refuses(self) -> None:
        """What the store says is told."""
        self.patch(self.world.memory, "append", lambda entries: succeed([StorageFull()]))
        self.refused(ProduceRequest("orders", 0, [b"a"]), StorageFull)

    def test_too_large_for_the_topic(self) -> None:
        """The limit of the topic holds."""
        self.world.create("small", 1, **{"max.message.bytes": "100"})
        self.refused(ProduceRequest("small", 0, [b"x" * 100]), RecordTooLarge)

    def test_offsets_that_do_not_fit(self) -> None:
        """A request whose answer would not fit a frame is refused before anything is appended."""
        records = [b""] * (PRODUCE_RECORDS_MAX + 1)
        error = self.refused(ProduceRequest("orders", 0, records), DoesNotFit)
        self.assertTrue(str(error).startswith("max frame size exceeded: "))
        self.assertEqual(self.fetch().next_offset, 0)


class FetchTests(HandlersCase):
    def test_from_the_start(self) -> None:
        """All records with their offsets, and where to go on."""
        self.produce(b"a", b"b")
        self.produce(b"c")
        response = self.fetch()
        self.assertEqual(
            [(each.offset, each.payload) for each in response.records], [(0, b"a"), (1, b"b"), (2, b"c")]
        )
        self.assertEqual(response.next_offset, 3)

    def test_within_a_batch(self) -> None:
        """A fetch may begin in the middle of what was produced together."""
        self.produce(b"a", b"b", b"c")
        self.assertEqual(self.payloads(1), [b"b", b"c"])

    def test_at_the_end(self) -> None:
        """At the end of the log there is nothing, and the next offset is the end."""
        self.produce(b"a", b"b")
        self.assertEqual(self.fetch(2), FetchResponse([], 2))

    def test_beyond_the_end(self) -> None:
        """Beyond the end it is the same, for any u64."""
        self.produce(b"a", b"b")
        for offset in (3, 1000, 2**63 - 1, 2**63, 2**64 - 1):
            self.assertEqual(self.fetch(offset), FetchResponse([], 2))

    def test_empty_log(self) -> None:
        """A partition without records has its end at 0."""
        self.assertEqual(self.fetch(), FetchResponse([], 0))

    def test_too_old(self) -> None:
        """What is before the start of the log is out of range."""
        self.produce(b"a")
        self.produce(b"b")
        self.world.memory.delete_records(self.world.memory.partition("orders", 0), 1)
        error = self.refused(FetchRequest("orders", 0, 0, 1000), OffsetOutOfRange)
        self.assertEqual(str(error), "offset out of range: 0 is not within 1..2")
        self.assertEqual(self.payloads(1), [b"b"])

    def test_unknown_partition(self) -> None:
        """Topics and partitions must exist, with a group or without."""
        self.refused(FetchRequest("orders", 99, 0, 1000), PartitionNotFound)
        self.refused(FetchRequest("nothing", 0, 0, 1000, "group"), PartitionNotFound)

    def test_topic_deleted_meanwhile(self) -> None:
        """A topic that was deleted while the request was under way is not found either."""
        self.patch(self.world.memory, "read", lambda *_: [TopicNotFound("orders")])
        self.refused(FetchRequest("orders", 0, 0, 1000), PartitionNotFound)

    def test_max_bytes_counts_payloads(self) -> None:
        """As many records as have that many bytes together, however they were produced."""
        self.produce(b"0123456789")
        self.produce(b"0123456789", b"0123456789")
        self.produce(b"0123456789")
        for max_bytes, count in [(1, 1), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (40, 4), (99, 4)]:
            self.assertEqual(len(self.payloads(0, max_bytes)), count, max_bytes)

    def test_at_least_one(self) -> None:
        """A record that is larger than max_bytes is returned all the same, alone."""
        self.produce(b"x" * 1000)
        self.produce(b"")
        self.produce(b"y")
        for max_bytes in (0, 1, 999):
            response = self.fetch(0, max_bytes)
            self.assertEqual([len(each.payload) for each in response.records], [1000])
            self.assertEqual(response.next_offset, 1)

    def test_everything_in_the_end(self) -> None:
        """Going on from next_offset meets every record once, whatever max_bytes is."""
        for size in range(40):
            self.produce(*[bytes([number]) * size for number in range(size % 4 + 1)])
        expected = self.payloads(0, 2**64 - 1)
        for max_bytes in (0, 1, 30, 500):
            found: list[bytes] = []
            offset, end = 0, len(expected)
            while offset < end:
                response = self.fetch(offset, max_bytes)
                found += [each.payload for each in response.records]
                offset = response.next_offset
            self.assertEqual(found, expected)

    def test_reads_on_while_there_is_room(self) -> None:
        """A store that gives little at a time does not make the answer smaller."""
        for number in range(20):
            self.produce(b"%d" % number)
        original = self.world.memory.read
        reads = []

        def little(wants: Any, max_bytes: int, isolation: Any) -> Any:
            reads.append(max_bytes)
            return original([(partition, offset, 1) for partition, offset, _ in wants], 1, isolation)

        self.patch(self.world.memory, "read", little)
        self.assertEqual(len(self.payloads()), 20)
        self.assertEqual(len(reads), 20)

    def test_many_reads_do_not_exhaust_the_stack(self) -> None:
        """The same with thousands of reads, answered at once or later."""
        for number in range(3000):
            self.produce(b"%d" % number)
        original = self.world.memory.read
        for answer in (lambda value: value, succeed):
            self.patch(
                self.world.memory,
                "read",
                lambda wants, _, isolation, answer=answer: answer(
                    original([(partition, offset, 1) for partition, offset, _ in wants], 1, isolation)
                ),
            )
            self.assertEqual(len(self.payloads()), 3000)

    def test_reads_no_more_than_needed(self) -> None:
        """When enough was found, the store is not asked again."""
        self.produce(b"0123456789")
        self.produce(b"0123456789")
        original = self.world.memory.read
        reads = []

        def one_batch(wants: Any, max_bytes: int, isolation: Any) -> Any:
            reads.append(wants)
            return original([(partition, offset, 1) for partition, offset, _ in wants], 1, isolation)

        self.patch(self.world.memory, "read", one_batch)
        self.assertEqual(len(self.payloads(0, 10)), 1)
        self.assertEqual(len(reads), 1)

    def test_fits_a_frame(self) -> None:
        """An answer has as many records as fit a frame, and the rest comes with the next."""
        record = b"\xff" * 500_000  # two million characters of JSON
        for _ in range(7):
            self.produce(record)
        response = self.fetch(0, 2**40)
        self.assertEqual(len(response.records), 5)
        self.assertEqual(response.next_offset, 5)
        self.assertLessEqual(len(encode_response(response)), FRAME_BYTES_MAX)
        self.assertEqual(len(self.fetch(5, 2**40).records), 2)

    def test_record_that_fits_no_frame(self) -> None:
        """A record that no answer can hold is an error that says what to do; it is never skipped."""
        self.produce(b"small")
        self.append(build([Record(b"\xff" * 2_621_440)], now_ms=0))
        self.produce(b"behind")
        self.assertEqual(self.payloads(0, 2**40), [b"small"])
        error = self.refused(FetchRequest("orders", 0, 1, 2**40), DoesNotFit)
        self.assertTrue(str(error).startswith("max frame size exceeded: record at offset 1 "), error)
        self.assertTrue(str(error).endswith("or go on behind it with 2"), error)
        self.assertEqual(self.payloads(2), [b"behind"])

    def test_records_of_other_protocols(self) -> None:
        """Keys and headers are not shown, a null value is an empty one, compression does not matter."""
        headers = (("trace", b"1"),)
        mixed = [Record(None, key=b"k"), Record(b"v", key=b"k", headers=headers)]
        for each in (Codec.NONE, Codec.GZIP):
            self.append(build(mixed, now_ms=0, codec=each))
        self.assertEqual(self.payloads(), [b"", b"v", b"", b"v"])

    def test_control_batches(self) -> None:
        """Markers between the records are passed over, also when nothing but them was read."""
        self.produce(b"a")
        for _ in range(3):
            self.append(
                build_batch(b"", record_count=1, base_timestamp=0, max_timestamp=0, attributes=CONTROL_BIT)
            )
        self.assertEqual(self.fetch(1), FetchResponse([], 4))
        self.produce(b"b")
        response = self.fetch()
        self.assertEqual([each.offset for each in response.records], [0, 4])
        self.assertEqual([each.offset for each in self.fetch(1, 1).records], [4])

    def test_damage_behind_good_records(self) -> None:
        """What is good is delivered; the client meets the damage when it comes to it."""
        self.produce(b"a")
        self.append(build_batch(b"\x01garbage", record_count=1, base_timestamp=0, max_timestamp=0))
        self.assertEqual(self.payloads(), [b"a"])
        self.refused(FetchRequest("orders", 0, 1, 1000), CorruptBatch)

    def test_error_behind_good_records(self) -> None:
        """The same when the store can not read on."""
        self.produce(b"a")
        self.produce(b"b")
        original = self.world.memory.read
        good = original([(self.world.memory.partition("orders", 0), 0, 1)], 1, None)
        answers = iter([good, [Closed()]])
        self.patch(self.world.memory, "read", lambda *_: next(answers))
        response = self.fetch()
        self.assertEqual(([each.payload for each in response.records], response.next_offset), ([b"a"], 1))

    def test_everything_is_released(self) -> None:
        """What was read is given back exactly once, also when it can not be decoded."""
        released = []

        class Slice(MemorySlice):
            def release(self) -> None:
                released.append(self)

        good = bytes(build([Record(b"a"), Record(b"b")], now_ms=0).buffer)
        bad = bytes(build_batch(b"\x01garbage", record_count=1, base_timestamp=0, max_timestamp=0).buffer)
        for content, error in ((good, None), (bad, CorruptBatch)):
            found = [Slice(content)]
            self.patch(self.world.memory, "read", lambda *_, found=found: [Fetched(tuple(found), 1, 9, 9, 0)])
            released.clear()
            request = FetchRequest("orders", 0, 0, 1)
            if error is None:
                self.ask(request)
            else:
                self.refused(request, error)
            self.assertEqual(released, found)


class GroupTests(HandlersCase):
    def commit(self, offset: int, topic: str = "orders", partition: int = 0) -> Any:
        return self.ask(OffsetCommitRequest(topic, partition, "processor", offset))

    def committed(self, partition: int = 0) -> int | None:
        response = self.ask(OffsetFetchRequest("orders", partition, "processor"))
        self.assertIsInstance(response, OffsetFetchResponse)
        return response.offset

    def test_higher_of_committed_and_requested(self) -> None:
        """A group reads from what it has committed, unless it asks for what is further on."""
        self.produce(b"0", b"1", b"2", b"3")
        self.assertEqual(self.payloads(1, group="processor"), [b"1", b"2", b"3"])
        self.commit(2)
        self.assertEqual(self.payloads(0, group="processor"), [b"2", b"3"])
        self.assertEqual(self.payloads(2, group="processor"), [b"2", b"3"])
        self.assertEqual(self.payloads(3, group="processor"), [b"3"])
        self.assertEqual(self.payloads(0, group="another"), [b"0", b"1", b"2", b"3"])
        self.assertEqual(self.payloads(0), [b"0", b"1", b"2", b"3"])

    def test_commit_is_per_partition(self) -> None:
        """What is committed in one partition is not committed in another."""
        self.commit(5)
        self.assertEqual((self.committed(0), self.committed(1)), (5, None))

    def test_committed_beyond_the_end(self) -> None:
        """A group that committed too much finds nothing, and the end of the log."""
        self.produce(b"0")
        self.commit(2**63 - 1)
        self.assertEqual(self.fetch(0, group="processor"), FetchResponse([], 1))

    def test_commits_overwrite(self) -> None:
        """The last commit wins, also when it goes back."""
        self.assertIsNone(self.committed())
        for offset in (5, 1500, 3, 0):
            self.assertEqual(self.commit(offset), OffsetCommitResponse(True))
            self.assertEqual(self.committed(), offset)

    def test_commit_to_an_unknown_partition(self) -> None:
        """It does not succeed."""
        self.assertEqual(self.commit(1, partition=99), OffsetCommitResponse(False))
        self.assertEqual(self.commit(1, topic="nothing"), OffsetCommitResponse(False))

    def test_store_fails(self) -> None:
        """A commit that the store could not keep did not succeed."""
        self.patch(self.world.broker._offsets, "commit", lambda *_: fail(Closed()))
        self.assertEqual(self.commit(1), OffsetCommitResponse(False))

    def test_commit_of_an_impossible_offset(self) -> None:
        """No log will ever have an offset of 2^63: it is refused in words, and the old one stays."""
        self.commit(2**63 - 1)
        error = self.refused(OffsetCommitRequest("orders", 0, "processor", 2**63), OffsetOutOfRange)
        self.assertIn(f"{2**63} is not within 0..{2**63 - 1}", str(error))
        self.assertEqual(self.committed(), 2**63 - 1)

    def test_impossible_group(self) -> None:
        """A group whose name can not be kept is refused in words."""
        self.refused(OffsetCommitRequest("orders", 0, "g" * 40_000, 1), InvalidGroup)
        self.refused(OffsetFetchRequest("orders", 0, "g" * 40_000), InvalidGroup)

    def test_never_committed(self) -> None:
        """Nothing is committed in what does not exist."""
        response = self.ask(OffsetFetchRequest("nothing", 7, "processor"))
        self.assertEqual(response, OffsetFetchResponse(None))

    def test_seen_by_other_protocols(self) -> None:
        """What is committed here is what everybody sees."""
        self.commit(7)
        partition = TopicPartition("orders", 0)
        found = self.successResultOf(self.world.broker.fetch_offsets(CONTEXT, "processor"))
        self.assertEqual(found[partition].offset, 7)


class CreateTopicTests(HandlersCase):
    def test_create(self) -> None:
        """A topic is made as wanted, and can be used."""
        created = self.ask(CreateTopicRequest("payments", 3, {"retention.ms": 5}))
        self.assertEqual(created, CreateTopicResponse("payments", 3, {"retention.ms": "5"}))
        self.assertEqual(self.ask(ProduceRequest("payments", 2, [b"a"])), ProduceResponse([0]))

    def test_defaults(self) -> None:
        """What is not said is the broker's default."""
        self.assertEqual(self.ask(CreateTopicRequest("payments")), CreateTopicResponse("payments", 1, {}))
