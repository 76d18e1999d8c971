"""L{FakeBroker}: a log in memory that judges producers as a broker does, and clients of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType

from rustlog.errors import OutOfOrderSequence
from rustlog.log.batch import RecordBatch
from rustlog.log.producers import ProducerTable
from rustlog.log.records import decode
from rustlog.model import TopicPartition
from rustlog.spark.encoding import ProducerState
from rustlog.spark.errors import DataLost, RequestRefused, TopicNotFound
from rustlog.spark.kafka import EARLIEST, LATEST, Fetched, FoundOffset, TopicMetadata


class FakeBroker:
    """
    Partitions as lists of batches.

    @ivar topics: how many partitions each has.
    @ivar starts: where partitions begin, if not at 0.
    """

    def __init__(self, **topics: int) -> None:
        self.topics = topics
        self.batches: defaultdict[TopicPartition, list[RecordBatch]] = defaultdict(list)
        self.producers: defaultdict[TopicPartition, ProducerTable] = defaultdict(ProducerTable)
        self.starts: defaultdict[TopicPartition, int] = defaultdict(int)
        self.times: dict[TopicPartition, dict[int, int]] = {}
        self.producer_ids = 0

    def connect(self, *_: object) -> FakeClient:
        return FakeClient(self)

    def end(self, partition: TopicPartition) -> int:
        batches = self.batches[partition]
        return batches[-1].next_offset if batches else self.starts[partition]

    def append(self, partition: TopicPartition, data: bytes) -> int:
        batch = RecordBatch(data)
        batch.check()
        try:
            original = self.producers[partition].check(batch)
        except OutOfOrderSequence as error:
            name = "OUT_OF_ORDER_SEQUENCE_NUMBER"
            raise RequestRefused("Produce", 45, name, str(partition), str(error)) from None
        if original is not None:
            return original
        base_offset = self.end(partition)
        placed = batch.at(base_offset, 0)
        self.producers[partition].record(placed, base_offset, 0)
        self.batches[partition].append(placed)
        return base_offset

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        self.starts[partition] = offset
        kept = [each for each in self.batches[partition] if each.last_offset >= offset]
        self.batches[partition] = kept

    def values(self, topic: str) -> dict[int, list[bytes]]:
        """What each partition has, in order."""
        return {
            index: [
                record.value or b""
                for batch in self.batches[TopicPartition(topic, index)]
                for record in decode(batch)
            ]
            for index in range(self.topics[topic])
        }


class FakeClient:
    """The part of L{rustlog.spark.kafka.KafkaClient} that is needed."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker

    def topics(self) -> dict[str, TopicMetadata]:
        return {name: TopicMetadata(name, count) for name, count in self.broker.topics.items()}

    def topic(self, name: str, *, creates: bool = False) -> TopicMetadata:
        try:
            return self.topics()[name]
        except KeyError:
            raise TopicNotFound(name) from None

    def init_producer(self) -> ProducerState:
        self.broker.producer_ids += 1
        return ProducerState(self.broker.producer_ids, 0, 0)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = True
    ) -> dict[TopicPartition, FoundOffset]:
        return {each: FoundOffset(self._offset(each, time)) for each, time in wanted.items()}

    def _offset(self, partition: TopicPartition, time: int) -> int:
        if time == EARLIEST:
            return self.broker.starts[partition]
        if time == LATEST:
            return self.broker.end(partition)
        times = self.broker.times.get(partition, {})
        return min((offset for offset, found in times.items() if found >= time), default=-1)

    def fetch(self, partition: TopicPartition, offset: int, **_: object) -> Fetched:
        start, end = self.broker.starts[partition], self.broker.end(partition)
        if not start <= offset <= end:
            raise DataLost(partition.topic, partition.partition, offset, start, end)
        batches = [each for each in self.broker.batches[partition] if each.last_offset >= offset]
        # One at a time: whoever reads has to come again.
        data = bytes(batches[0].buffer) if batches else b""
        return Fetched(data, end, end, start)

    def produce(self, partition: TopicPartition, data: bytes, *, acks: int = -1) -> int:
        return self.broker.append(partition, data)

    def close(self) -> None:
        pass

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
