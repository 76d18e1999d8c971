"""
Publishing staged batches, each exactly once.

A batch of an application is published in these steps, each of which is on disk before the next one begins:

    1. the workers stage their record batches;
    2. the driver makes the B{plan}: which record batches go to which partition, in which order, as which
    producer (an id that
       the brokers give only once) and behind which offset;
    3. it appends them, one after the other in each partition, with sequence numbers that begin at 0;
    4. it saves the B{state}: this batch is done;
    5. it removes what was staged.

It may die between any two of them, and within each.  Spark then gives the same batch again, from which the
workers stage new files, perhaps cut in another way.  The driver sees

    - no plan: nothing was published.  It begins at 2;
    - a plan, but no state: it goes on with B{that plan} and its files, not with the new ones.  What has been
      appended stands in the log itself: batches of that producer behind that offset.  It goes on behind the
      last of them.  A request of the dead driver that arrives even later bears the same sequence numbers, so
      the broker knows it for a duplicate;
    - the state: all was published.  It does nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import numpy as np
from crc32c import crc32c

from rustlog.log.batch import HEADER
from rustlog.model import TopicPartition
from rustlog.spark.batches import find_batches
from rustlog.spark.errors import PipelineError, RequestRefused
from rustlog.spark.kafka import EARLIEST, LATEST, KafkaClient
from rustlog.spark.staging import Plan, PlannedPartition, StagedBatch, Staging, State

CONNECTIONS_MAX = 4
OUT_OF_ORDER_SEQUENCE_NUMBER = 45

_CRC_FROM = 21
_CRC = 4
_PRODUCER = slice(9, 12)
"""Among the fields of a header."""

Connect = Callable[[], AbstractContextManager[KafkaClient]]


class OtherQuery(PipelineError):
    """An application id is used for two checkpoints, whose batches have the same numbers, but other rows."""

    def __init__(self, application: str, known: str, query: str) -> None:
        super().__init__(application, known, query)
        self.application, self.known, self.query = application, known, query

    def __str__(self) -> str:
        return (
            f"applicationId {self.application} belongs to query {self.known}, and this is query {self.query} "
            "with a checkpoint of its own, so its batches are numbered from 0 again and would be taken for "
            "those that were written before. Give it another applicationId, or another stagingLocation"
        )


class OutcomeUnknown(PipelineError):
    """Whether something was published can not be found out any more."""

    def __init__(self, partition: TopicPartition, start: int, log_start: int) -> None:
        super().__init__(partition, start, log_start)
        self.partition, self.start, self.log_start = partition, start, log_start

    def __str__(self) -> str:
        return (
            f"a batch was being appended to {self.partition} behind offset {self.start} when a driver died, "
            f"and now the log begins at {self.log_start}: what was appended may have been deleted. Remove "
            "plan.json from the staging directory to have the batch written again, as a whole"
        )


class Publisher:
    """Publishes the batches of one application."""

    def __init__(self, staging: Staging, connect: Connect, application: str) -> None:
        self._staging = staging
        self._connect = connect
        self._application = application

    def publish(self, batch: int, staged: Iterable[StagedBatch], query: str | None = None) -> bool:
        """
        See that a batch is there, exactly once, whatever happened before.

        @param staged: what the workers have staged for it this time, in the order of its rows.
        @return: whether there was something to do.
        @raise OtherQuery: the application is not who it was.
        """
        state = self._staging.state()
        if query is not None and state.query is not None and query != state.query:
            raise OtherQuery(self._application, state.query, query)
        is_new = batch > state.done
        if is_new:
            self.append(str(batch), staged)
            self._staging.save_state(State(batch, query or state.query))
        self._staging.forget_before(batch)
        self._staging.forget(str(batch))
        return is_new

    def append(self, batch: str, staged: Iterable[StagedBatch]) -> None:
        """Make a plan, or take the one that there is, and carry it out."""
        plan = self._staging.plan(batch)
        if plan is None:
            plan = self._make_plan(batch, list(staged))
            if plan is None:
                return
        with ThreadPoolExecutor(min(CONNECTIONS_MAX, len(plan.partitions))) as threads:
            for _ in threads.map(lambda each: self._append_to(batch, plan, each), plan.partitions):
                pass

    def _make_plan(self, batch: str, staged: Sequence[StagedBatch]) -> Plan | None:
        if not staged:
            return None
        # A plan that can not be carried out would stand in the way for ever.
        self._staging.check(batch, staged)
        by_partition: defaultdict[TopicPartition, list[StagedBatch]] = defaultdict(list)
        for each in staged:
            by_partition[TopicPartition(each.topic, each.partition)].append(each)
        with self._connect() as client:
            producer = client.init_producer()
            ends = client.list_offsets(dict.fromkeys(by_partition, LATEST), read_committed=False)
        partitions = (
            PlannedPartition(each.topic, each.partition, ends[each].offset, tuple(by_partition[each]))
            for each in sorted(by_partition)
        )
        return self._staging.propose(batch, Plan(producer.producer_id, producer.epoch, tuple(partitions)))

    def _append_to(self, batch: str, plan: Plan, wanted: PlannedPartition) -> None:
        with self._connect() as client:
            sequence = appended(client, plan, wanted)
            number = 0
            for each in wanted.batches:
                if number >= sequence:
                    data = self._staging.read(batch, each)
                    _append(client, plan, wanted, data, number)
                number += each.records


def _append(client: KafkaClient, plan: Plan, wanted: PlannedPartition, data: bytes, sequence: int) -> None:
    signed = with_producer(data, plan.producer_id, plan.producer_epoch, sequence)
    try:
        client.produce(wanted.target, signed)
    except RequestRefused as refused:
        # Someone else carries out the same plan, and is further.
        if refused.code != OUT_OF_ORDER_SEQUENCE_NUMBER or appended(client, plan, wanted) <= sequence:
            raise


def appended(client: KafkaClient, plan: Plan, wanted: PlannedPartition) -> int:
    """
    How many records of a plan are in a partition already: what the log itself says.

    @raise OutcomeUnknown: the log does not reach back so far.
    """
    target = wanted.target
    first = _edge(client, target, EARLIEST)
    end = _edge(client, target, LATEST)
    offset, count = max(first, wanted.start), 0
    while offset < end:
        fetched = client.fetch(target, offset, read_committed=False)
        batches = find_batches(fetched.data, wanted.topic, wanted.partition, may_be_cut_off=True)
        if not len(batches):
            if len(fetched.data):
                raise PipelineError(f"the batch at offset {offset} of {target} is larger than a fetch")
            break  # The last records before the end were compacted away.
        is_own = batches.field("producer_id") == plan.producer_id
        own = np.flatnonzero(is_own & (batches.field("base_offset") >= wanted.start))
        if own.size:
            sequences, deltas = batches.field("base_sequence"), batches.field("last_offset_delta")
            count = int(sequences[own[-1]] + deltas[own[-1]]) + 1
        offset = int(batches.last_offsets[-1]) + 1
    if not count and first > wanted.start:
        raise OutcomeUnknown(target, wanted.start, first)
    return count


def _edge(client: KafkaClient, partition: TopicPartition, which: int) -> int:
    return client.list_offsets({partition: which}, read_committed=False)[partition].offset


def with_producer(data: bytes, producer_id: int, epoch: int, sequence: int) -> bytes:
    """A record batch as this producer sends it: its header says so, and the checksum covers that."""
    content = bytearray(data)
    fields = list(HEADER.unpack_from(content))
    fields[_PRODUCER] = producer_id, epoch, sequence
    HEADER.pack_into(content, 0, *fields)
    fields[_CRC] = crc32c(memoryview(content)[_CRC_FROM:])
    HEADER.pack_into(content, 0, *fields)
    return bytes(content)
