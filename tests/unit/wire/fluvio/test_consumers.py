"""Tests for L{rustlog.wire.fluvio.handlers.consumers}, and for FetchOffsets."""

from __future__ import annotations

from typing import Any

from rustlog.groups.values import Join
from rustlog.model import Committed, TopicPartition
from rustlog.testing.broker import CONTEXT
from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.consumers import (
    ConsumerOffset,
    DeleteConsumerOffsetRequest,
    FetchConsumerOffsetsRequest,
    UpdateConsumerOffsetRequest,
    UpdateConsumerOffsetResponse,
)
from rustlog.wire.fluvio.errors import (
    FETCH_SESSION_NOT_FOUND,
    NONE,
    NOT_LEADER_FOR_PARTITION,
    OFFSET_MANAGEMENT_DISABLED,
    OFFSET_OUT_OF_RANGE,
)
from rustlog.wire.fluvio.fetching import FetchOffsetsRequest, PartitionOffsets
from tests.unit.wire.fluvio.client import FluvioCase

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class ConsumersCase(FluvioCase):
    def setUp(self) -> None:
        super().setUp()
        self.append(b"a", b"b", b"c")

    def open(self, **more: Any) -> int:
        """A stream; its number."""
        self.client.stream(0, **more)
        stream_id: int = self.client.one().stream_id
        return stream_id

    def update(self, offset: int, stream_id: int) -> Any:
        return self.client.call(
            apis.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequest(offset, stream_id)
        )

    def offsets(self, *filters: Any) -> Any:
        return self.client.call(apis.FETCH_CONSUMER_OFFSETS, FetchConsumerOffsetsRequest(*filters)).offsets

    def forget(self, partition: TopicPartition, consumer: str) -> Any:
        request = DeleteConsumerOffsetRequest(partition, consumer)
        return self.client.call(apis.DELETE_CONSUMER_OFFSET, request).error

    def commit(self, group: str, **more: int) -> None:
        """As another protocol does."""
        progress = {TopicPartition("orders", int(key[1:])): Committed(each) for key, each in more.items()}
        self.world.broker.commit_offsets(CONTEXT, group, progress)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        found = self.successResultOf(self.world.broker.fetch_offsets(CONTEXT, group))
        return {name: each.offset for name, each in found.items()}


class UpdateTests(ConsumersCase):
    def test_update(self) -> None:
        """What a consumer has read last is one less than what its group reads next."""
        stream_id = self.open(consumer_id="kitchen")
        self.assertEqual(self.update(1, stream_id), UpdateConsumerOffsetResponse(1, NONE))
        self.assertEqual(self.committed("kitchen"), {ORDERS_0: 2})
        self.assertEqual(self.offsets(ORDERS_0, "kitchen")[0].offset, 1)

    def test_nothing_read(self) -> None:
        """A consumer that has read nothing yet may say so."""
        self.update(-1, self.open(consumer_id="kitchen"))
        self.assertEqual(self.committed("kitchen"), {ORDERS_0: 0})
        self.assertEqual(self.offsets()[0].offset, -1)

    def test_refused(self) -> None:
        """Without a stream, without a consumer, or with what is no offset, nothing is kept."""
        anonymous = self.open()
        known = self.open(consumer_id="kitchen")
        self.assertEqual(self.update(1, 99).error, FETCH_SESSION_NOT_FOUND)
        self.assertEqual(self.update(1, anonymous).error, OFFSET_MANAGEMENT_DISABLED)
        self.assertEqual(self.update(2**63 - 1, known).error, OFFSET_OUT_OF_RANGE)
        self.assertEqual(self.offsets(), ())


class FetchTests(ConsumersCase):
    def test_all(self) -> None:
        """All groups are shown, whichever protocol they have used, with the second of their last commit."""
        self.commit("bar", p0=1, p1=7)
        self.commit("kitchen", p0=3)
        seconds = self.world.environment.wall.now_ms() // 1000
        self.assertEqual(
            self.offsets(),
            (
                ConsumerOffset("bar", ORDERS_0, 0, seconds),
                ConsumerOffset("bar", ORDERS_1, 6, seconds),
                ConsumerOffset("kitchen", ORDERS_0, 2, seconds),
            ),
        )

    def test_filters(self) -> None:
        """Or those of one consumer, of one partition, or of both."""
        self.commit("bar", p0=1, p1=7)
        self.commit("kitchen", p0=3)
        self.assertEqual([each.consumer_id for each in self.offsets(ORDERS_0)], ["bar", "kitchen"])
        self.assertEqual([each.partition for each in self.offsets(None, "bar")], [ORDERS_0, ORDERS_1])
        self.assertEqual([each.offset for each in self.offsets(ORDERS_1, "bar")], [6])
        self.assertEqual(self.offsets(ORDERS_1, "kitchen"), ())
        self.assertEqual(self.offsets(None, "nobody"), ())

    def test_older_version(self) -> None:
        """Before there were filters, all are shown."""
        self.commit("bar", p0=1)
        request = FetchConsumerOffsetsRequest()
        found = self.client.call(apis.FETCH_CONSUMER_OFFSETS, request, 23).offsets
        self.assertEqual([each.consumer_id for each in found], ["bar"])


class DeleteTests(ConsumersCase):
    def test_delete(self) -> None:
        """What is forgotten is not there any more; to forget it once more is no error."""
        self.commit("bar", p0=1, p1=7)
        for _ in range(2):
            self.assertEqual(self.forget(ORDERS_0, "bar"), NONE)
            self.assertEqual(self.committed("bar"), {ORDERS_1: 7})
        self.assertEqual(self.forget(ORDERS_1, "bar"), NONE)
        self.assertEqual(self.forget(ORDERS_1, "nobody"), NONE)
        self.assertEqual(self.offsets(), ())

    def test_read_by_others(self) -> None:
        """What members of a Kafka group read is theirs."""
        self.commit("bar", p0=1)
        protocols = (("range", _subscription("orders")),)
        timeouts = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
        self.world.coordinator.join("bar", Join(protocol_type="consumer", protocols=protocols, **timeouts))
        self.clock.advance(5)
        self.assertIn("members of group bar", self.forget(ORDERS_0, "bar").facts[0])


def _subscription(topic: str) -> bytes:
    """Version 0 of what Kafka's consumers say: one topic, and nothing else."""
    return b"\0\0\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff"


class FetchOffsetsTests(ConsumersCase):
    def test_bounds(self) -> None:
        """Where partitions begin and end, and which are not there."""
        self.world.broker.administration.delete_records(CONTEXT, ORDERS_0, 1)
        request = FetchOffsetsRequest((("orders", (0, 1, 2)), ("nope", (0,)), ("empty", ())))
        for version in (23, 24):
            response = self.client.call(apis.FETCH_OFFSETS, request, version)
            self.assertEqual(
                response.topics,
                (
                    (
                        "orders",
                        (
                            PartitionOffsets(0, NONE, 1, 3),
                            PartitionOffsets(1, NONE, 0, 0),
                            PartitionOffsets(2, NOT_LEADER_FOR_PARTITION),
                        ),
                    ),
                    ("nope", (PartitionOffsets(0, NOT_LEADER_FOR_PARTITION),)),
                    ("empty", ()),
                ),
            )
