"""Tests for L{rustlog.wire.fluvio.produce}."""

from __future__ import annotations

from crc32c import crc32c
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import CorruptBatch
from rustlog.log.codecs import Codec
from rustlog.log.records import decode
from rustlog.model import Record
from rustlog.wire.fluvio.apis import PRODUCE
from rustlog.wire.fluvio.batches import HEADER_SIZE, build, to_log
from rustlog.wire.fluvio.codec import decode_request, decode_response, encode_request, encode_response
from rustlog.wire.fluvio.compression import compress
from rustlog.wire.fluvio.errors import NOT_LEADER_FOR_PARTITION, other
from rustlog.wire.fluvio.primitives import Unreadable, Writer
from rustlog.wire.fluvio.produce import (
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    TopicRecords,
    TopicResult,
    write_described_request,
)
from rustlog.wire.fluvio.smartmodules import SmartModule

NOW = 1_700_000_000_000


def example(value: bytes = b"hello", timestamp: int = NOW, *, counted: bool = False) -> bytes:
    """The complete example of the protocol's description, with its blanks filled in."""
    record = b"\0\0\0\0" + bytes([len(value) << 1]) + value + b"\0"
    checked = bytes.fromhex(
        "0000"  # attributes
        "00000000"  # last_offset_delta
        f"{timestamp:016x} {timestamp:016x}"  # first_timestamp, max_time_stamp
        "ffffffffffffffff ffff 00000000"  # producer_id, producer_epoch, first_sequence
    )
    checked += (b"\0\0\0\x01" if counted else b"") + bytes([len(record) << 1]) + record
    after_length = b"\0\0\0\0\x02" + crc32c(checked).to_bytes(4, "big") + checked
    return (
        bytes.fromhex(
            "00"  # transactional_id: None
            "0001"  # isolation: ReadUncommitted
            "00007530"  # timeout
            "00000001"  # topics
            "000c 746573742d70726f64756365"  # test-produce
            "00000001"  # partitions
            "00000000"  # partition_index
            "0000000000000000"  # base_offset
        )
        + len(after_length).to_bytes(4, "big")
        + after_length
        + bytes(4)  # smartmodules
    )


def batch(*values: bytes) -> bytes:
    return build([Record(each, timestamp=NOW) for each in values])


def request_of(*batches: bytes, modules: tuple[SmartModule, ...] = ()) -> ProduceRequest:
    partitions = tuple(PartitionRecords(index, each) for index, each in enumerate(batches))
    return ProduceRequest((TopicRecords("orders", partitions),), smart_modules=modules)


class DescriptionTests(SynchronousTestCase):
    """Version 7 as the description of Fluvio's sources has it."""

    def test_example(self) -> None:
        """The example is a request with one record, with or without a count before it."""
        for counted in (False, True):
            request = decode_request(PRODUCE, 7, example(counted=counted), 0)
            self.assertEqual((request.acks, request.timeout_ms, request.transactional_id), (1, 30_000, None))
            (topic,) = request.topics
            self.assertEqual(topic.name, "test-produce")
            (entry,) = topic.partitions
            self.assertEqual(entry.index, 0)
            (kept,) = to_log(entry.batches, 5)
            kept.check()
            self.assertEqual(list(decode(kept)), [Record(b"hello", None, (), NOW, 0)])

    def test_its_answer(self) -> None:
        """The answer has the bytes of the description."""
        results = (PartitionResult(0, base_offset=41, log_start_offset=7),)
        answer = encode_response(PRODUCE, 7, ProduceResponse((TopicResult("test-produce", results),)))
        expected = (
            "00000001"  # responses
            "000c 746573742d70726f64756365"  # name
            "00000001"  # partitions
            "00000000 0000 0000000000000029 ffffffffffffffff 0000000000000007"
            "00000000"  # throttle_time_ms
        )
        self.assertEqual(answer, bytes.fromhex(expected))

    def test_no_key(self) -> None:
        """What there is none of is none, what is empty is empty."""
        (topic,) = decode_request(PRODUCE, 7, example(b""), 0).topics
        (kept,) = to_log(topic.partitions[0].batches, 5)
        self.assertEqual([(each.key, each.value) for each in decode(kept)], [(None, b"")])

    def test_several_partitions(self) -> None:
        """Batches that tell their size themselves are found one behind the other."""
        request = request_of(batch(b"a"), batch(b"b", b"c"), modules=(SmartModule("m"),))
        writer = Writer()
        write_described_request(writer, request)
        self.assertEqual(decode_request(PRODUCE, 7, writer.whole(), 0), request)

    def test_without_partitions(self) -> None:
        """A topic without partitions is one in both layouts."""
        request = request_of()
        writer = Writer()
        write_described_request(writer, request)
        self.assertEqual(decode_request(PRODUCE, 7, writer.whole(), 0), request)
        self.assertEqual(decode_request(PRODUCE, 7, encode_request(PRODUCE, 7, request), 0), request)

    def test_damaged(self) -> None:
        """A wrong checksum is a matter of that batch, not of the request."""
        data = bytearray(example())
        data[-6] ^= 1
        (topic,) = decode_request(PRODUCE, 7, data, 0).topics
        with self.assertRaises(CorruptBatch):
            to_log(topic.partitions[0].batches, 5)

    def test_only_there(self) -> None:
        """Other versions have one layout only."""
        for version in (6, 8, 24):
            with self.assertRaises(Unreadable):
                decode_request(PRODUCE, version, example(), 0)

    def test_neither(self) -> None:
        """What fits into no layout is refused."""
        data = example()
        no_batches = data.index(b"produce") + len(b"produce") + 4 + 4 + 4
        for size in set(range(len(data))) - {no_batches}:
            with self.assertRaises(Unreadable):
                decode_request(PRODUCE, 7, data[:size], 0)
        (topic,) = decode_request(PRODUCE, 7, data[:no_batches], 0).topics
        self.assertEqual(topic.partitions, (PartitionRecords(0, b""),))


class RequestTests(SynchronousTestCase):
    def test_versions(self) -> None:
        """Every version can be read."""
        request = request_of(batch(b"a"), batch(b"b", b"c"), b"")
        for version in PRODUCE.accepted:
            self.assertEqual(
                decode_request(PRODUCE, version, encode_request(PRODUCE, version, request), 0), request
            )

    def test_damaged_in_version_7(self) -> None:
        """What Fluvio's own client sends stays what it is when a checksum is wrong."""
        damaged = bytearray(batch(b"a"))
        damaged[-3] ^= 1
        request = request_of(bytes(damaged), batch(b"b"))
        self.assertEqual(decode_request(PRODUCE, 7, encode_request(PRODUCE, 7, request), 0), request)

    def test_several_batches(self) -> None:
        """One entry may have several."""
        request = request_of(batch(b"a") + batch(b"b", b"c"))
        (topic,) = decode_request(PRODUCE, 24, encode_request(PRODUCE, 24, request), 0).topics
        kept = to_log(topic.partitions[0].batches, 5)
        self.assertEqual([each.record_count for each in kept], [1, 2])

    def test_batches_are_views(self) -> None:
        """They are not copied."""
        data = encode_request(PRODUCE, 24, request_of(batch(b"a")))
        (topic,) = decode_request(PRODUCE, 24, data, 0).topics
        self.assertIs(topic.partitions[0].batches.obj, data)

    def test_modules(self) -> None:
        """SmartModules are read, from version 8 on."""
        request = request_of(batch(b"a", b"b"), modules=(SmartModule("filter"), SmartModule(wasm=b"\0asm")))
        read = decode_request(PRODUCE, 24, encode_request(PRODUCE, 24, request), 0)
        self.assertEqual([each.name for each in read.smart_modules], ["filter", "ad hoc"])
        self.assertEqual(read, request)


class ResponseTests(SynchronousTestCase):
    def test_versions(self) -> None:
        """Fields are there from the version on in which they came."""
        result = PartitionResult(3, NOT_LEADER_FOR_PARTITION, 5, 6, 7)
        sizes = {}
        for version in PRODUCE.accepted:
            answer = encode_response(PRODUCE, version, ProduceResponse((TopicResult("t", (result,)),), 9))
            assert isinstance(answer, bytes)
            sizes[version] = len(answer)
            read = decode_response(PRODUCE, version, answer)
            self.assertEqual(read.throttle_time_ms, 9 if version else 0)
            (kept,) = read.topics[0].partitions
            self.assertEqual((kept.index, kept.error, kept.base_offset), (3, NOT_LEADER_FOR_PARTITION, 5))
            self.assertEqual(kept.log_append_time_ms, 6 if version >= 2 else -1)
            self.assertEqual(kept.log_start_offset, 7 if version >= 5 else -1)
        self.assertEqual([sizes[each] for each in (0, 1, 2, 5, 24)], [25, 29, 37, 45, 45])

    def test_facts(self) -> None:
        """A code with facts does not shift what follows."""
        response = ProduceResponse((TopicResult("t", (PartitionResult(3, other("no")), PartitionResult(4))),))
        answer = encode_response(PRODUCE, 24, response)
        assert isinstance(answer, bytes)
        self.assertEqual(decode_response(PRODUCE, 24, answer), response)


class CompressionTests(SynchronousTestCase):
    def test_without_a_count(self) -> None:
        """The count may be missing in a compressed batch, too."""
        plain = batch(b"a", b"bc")[HEADER_SIZE:]
        for codec in Codec:
            data = bytearray(build([Record(b"a", timestamp=NOW), Record(b"bc", timestamp=NOW)], codec))
            data[HEADER_SIZE :] = compress(codec, plain[4:])
            data[8:12] = (len(data) - 12).to_bytes(4, "big")
            data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
            (kept,) = to_log(data, 5)
            self.assertEqual([each.value for each in decode(kept)], [b"a", b"bc"])
