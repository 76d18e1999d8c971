"""
Records into a partition of a topic, in their order and exactly once, across crashes of whoever sends them.

B{How it is exactly once.}  A job has one producer id for its whole life, and the sequence number of a
record is its number among all records that the job sends to that partition: 0, 1, 2, ….  Batches bear both,
the broker stores them as they are, and appends a sequence number only behind the one before it.  So how far
a job has come is written in the target itself, and nowhere else: whoever goes on looks for the last batch
of that producer id, and continues behind it.  A batch that a dead worker had still under way can not do
harm: either it comes first, and then ours is refused as a duplicate or out of order, and we look again; or
it comes second, and is refused itself.

Stores that keep no producer ids (MiniKafka's format) do not tell who has written what.  There, and only
there, the job must be the only one that writes: what it has sent is counted, and the last record is compared,
so that records of somebody else are not taken for its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from attrs import define, field, frozen

from rustlog.log import records
from rustlog.log.batch import NO_PRODUCER_ID, RecordBatch
from rustlog.log.codecs import Codec
from rustlog.model import TopicPartition
from rustlog.spark.batches import all_batches
from rustlog.spark.encoding import ProducerState, encode
from rustlog.spark.errors import RequestRefused
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.kafka import LATEST, KafkaClient
from rustlog.spark.settings import ClientSettings

OUT_OF_ORDER_SEQUENCE = 45
SEQUENCES = 2**31
_TAIL_BYTES = 4 * 1024 * 1024
_LOOKS_MAX = 5


@frozen
class Producer:
    """Who sends, for the whole life of a job."""

    producer_id: int
    epoch: int

    def state(self, number: int) -> ProducerState:
        """When it has sent so many records to a partition."""
        return ProducerState(self.producer_id, self.epoch, number % SEQUENCES)


@frozen
class Destination:
    """
    A partition that a job sends to.

    @ivar begin: where it ended when the job began.
    """

    name: TopicPartition
    begin: int


@frozen
class Delivered:
    """
    What a task tells of a partition.

    @ivar records: that the job has for it; C{sent}: of which so many were sent now.
    """

    topic: str
    partition: int
    records: int
    sent: int
    sent_bytes: int


# -- how far it is ---------------------------------------------------------------------


@frozen
class Reached:
    """
    How far a job is in a partition.

    @ivar records: so many it has sent.
    @ivar last: key and value of the last one, where there is a doubt whose it is.
    """

    records: int
    last: tuple[bytes | None, bytes | None] | None = None


def reached(client: KafkaClient, destination: Destination, producer: Producer) -> Reached:
    """How many records the producer has sent to a partition; it has to be at rest, or to be refused later."""
    name = destination.name
    end = client.list_offsets({name: LATEST})[name].offset
    if end <= destination.begin:
        return Reached(0)
    last = _batches(client, name, end - 1)[-1]
    if last.producer_id == producer.producer_id:
        return Reached(_number_behind(last, destination, end))
    return _counted(client, destination, end, producer)


def _number_behind(batch: RecordBatch, destination: Destination, end: int) -> int:
    """
    Sequence numbers begin anew after 2,147,483,647.  As nobody has sent more than there are offsets, and
    others hardly ever send, the highest number that fits is the one.
    """
    behind = batch.base_sequence + batch.record_count
    sent_max = end - destination.begin
    return behind + max(0, (sent_max - behind) // SEQUENCES) * SEQUENCES


def _counted(client: KafkaClient, destination: Destination, end: int, producer: Producer) -> Reached:
    """Somebody else has written last, or nobody knows who: look at everything."""
    ours = unknown = 0
    latest: RecordBatch | None = None
    offset = destination.begin
    while offset < end:
        batches = [each for each in _batches(client, destination.name, offset) if each.last_offset >= offset]
        for batch in batches:
            ours += batch.record_count if batch.producer_id == producer.producer_id else 0
            if batch.producer_id == NO_PRODUCER_ID:
                unknown, latest = unknown + batch.record_count, batch
        offset = batches[-1].next_offset
    if ours or latest is None:
        return Reached(ours)
    *_, record = records.decode(latest)
    return Reached(unknown, (record.key, record.value))


def _batches(client: KafkaClient, name: TopicPartition, offset: int) -> list[RecordBatch]:
    fetched = client.fetch(name, offset, max_bytes=_TAIL_BYTES, wait_ms=0)
    found = [each for _, each in all_batches(fetched.data, name.topic, name.partition, may_be_cut_off=True)]
    if not found:
        raise JobFailed(f"offset {offset} of {name} can not be read again")
    return found


# -- sending ---------------------------------------------------------------------------


@define(eq=False)
class Delivery:
    """
    Sends the records of a job to one partition.

    @ivar number: how many it has been given so far, sent now or before.
    @ivar sent: how many it has sent now.
    """

    _client: KafkaClient
    _destination: Destination
    _producer: Producer
    _codec: Codec
    _now_ms: int
    _reached: Reached = field(init=False)
    number: int = field(default=0, init=False)
    sent: int = field(default=0, init=False)
    sent_bytes: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._look()

    def _look(self) -> None:
        self._reached = reached(self._client, self._destination, self._producer)

    def has_all(self, records: int) -> bool:
        """Whether the next so many are there already; if so, they need not be given."""
        if self.number + records > self._reached.records or self._is_doubtful(records):
            return False
        self.number += records
        return True

    def _is_doubtful(self, records: int) -> bool:
        """Whether the record that has to be compared is among the next so many."""
        return self._reached.last is not None and self.number + records >= self._reached.records

    def told(self) -> Delivered:
        """What there is to tell at the end."""
        name = self._destination.name
        return Delivered(name.topic, name.partition, self.number, self.sent, self.sent_bytes)

    def send(self, rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[int, int]]:
        """
        The next records: those that are not there yet are sent, batch by batch.

        @return: records and bytes of each batch, when it is there.
        """
        first, behind = self.number, self.number + rows.num_rows
        self.number = behind
        for _ in range(_LOOKS_MAX):
            try:
                yield from self._send_rest(rows, first, behind)
                return
            except RequestRefused as error:
                if error.code != OUT_OF_ORDER_SEQUENCE:
                    raise
                self._look()
        raise JobFailed(f"somebody else sends the same to {self._destination.name} at the same time")

    def _send_rest(
        self, rows: pa.Table | pa.RecordBatch, first: int, behind: int
    ) -> Iterator[tuple[int, int]]:
        done = self._reached.records
        self._compare(rows, done - first - 1)
        if done >= behind:
            return
        if done < first:
            raise JobFailed(f"{self._destination.name} has lost records that were sent to it")
        batches = encode(
            rows.slice(done - first),
            now_ms=self._now_ms,
            codec=self._codec,
            producer=self._producer.state(done),
        )
        for batch in batches:
            self._client.produce(self._destination.name, batch.data)
            done += batch.records
            self._reached = Reached(done)
            self.sent += batch.records
            self.sent_bytes += len(batch.data)
            yield batch.records, len(batch.data)

    def _compare(self, rows: pa.Table | pa.RecordBatch, row: int) -> None:
        """See whether what was counted is what we have sent."""
        if self._reached.last is None or not 0 <= row < rows.num_rows:
            return
        key, value = (rows.column(name)[row].as_py() for name in ("key", "value"))
        # Where producer ids are not kept, null is not either.
        if (key or b"", value or b"") != tuple(part or b"" for part in self._reached.last):
            raise JobFailed(
                f"somebody else has written to {self._destination.name}, and nobody can tell what is whose; "
                "use an empty topic"
            )


@define(eq=False)
class EndsWatch:
    """Tells, from outside, how many records have come to some partitions."""

    _settings: ClientSettings
    _destinations: Sequence[Destination]
    _client: KafkaClient | None = None
    _before: int | None = None

    def __call__(self) -> int:
        if self._client is None:
            self._client = KafkaClient(self._settings)
        names = [each.name for each in self._destinations]
        found = self._client.list_offsets(dict.fromkeys(names, LATEST)) if names else {}
        now = sum(each.offset for each in found.values())
        if self._before is None:
            self._before = now
        return now - self._before

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
