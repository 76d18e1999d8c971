"""Members of groups on connections of the Kafka protocol: who waits, who is answered, who is gone."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.groups.transitions import GroupState
from rustlog.wire.kafka.errors import ErrorCode
from tests.unit.wire.kafka.client import KafkaClient, KafkaWorld

JOIN, HEARTBEAT, SYNC, LIST = 11, 12, 14, 16
JOIN_FIELDS: dict[str, Any] = {
    "group_id": "billing",
    "session_timeout": 10_000,
    "rebalance_timeout": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}


class WaitingTests(SynchronousTestCase):
    """A connection on which a JoinGroup waits for other members."""

    def setUp(self) -> None:
        self.world = KafkaWorld()
        self.client = self.world.kafka_client()

    def join(self, client: KafkaClient, member_id: str = "") -> None:
        client.send_entity(JOIN, 3, member_id=member_id, **JOIN_FIELDS)

    def states(self) -> list[GroupState]:
        return [each.state for each in self.successResultOf(self.world.coordinator.describe_all())]

    def test_order(self) -> None:
        """What is sent behind it is answered behind it; other connections are served meanwhile."""
        self.join(self.client)
        self.client.send_entity(HEARTBEAT, 3, group_id="billing", generation_id=1, member_id="x")
        self.assertEqual(self.client.received(), [])
        self.assertTrue(self.client.transport.is_reading)
        other = self.world.kafka_client()
        self.assertEqual(len(other.ask_entity(LIST, 4).groups), 1)
        self.world.clock.advance(3)
        joined, refused = self.client.received()
        self.assertEqual((joined.generation_id, joined.error_code), (1, ErrorCode.none))
        self.assertEqual(refused.error_code, ErrorCode.unknown_member_id)

    def test_lost_while_joining(self) -> None:
        """A client that is gone before it was ever a member is not waited for."""
        self.join(self.client)
        self.client.disconnect()
        self.world.clock.advance(3)
        self.assertEqual(self.states(), [])

    def test_lost_while_joining_again(self) -> None:
        """A member that is gone may come back over another connection; the others wait for it."""
        other, newcomer = self.world.kafka_client(), self.world.kafka_client()
        for each in (self.client, other):
            self.join(each)
        self.world.clock.advance(3)
        self.world.clock.advance(3)
        member_id, other_id = self.client.one().member_id, other.one().member_id
        self.join(newcomer)
        self.join(self.client, member_id)
        self.client.disconnect()
        self.join(other, other_id)
        self.assertEqual(newcomer.received(), [])
        again = self.world.kafka_client()
        self.join(again, member_id)
        self.assertEqual({each.one().generation_id for each in (again, other, newcomer)}, {2})

    def test_lost_while_syncing(self) -> None:
        """A member that is gone while it waits for the leader is one for as long as its session lasts."""
        follower = self.world.kafka_client()
        self.join(self.client)
        self.join(follower)
        self.world.clock.advance(3)
        self.world.clock.advance(3)
        self.client.one()
        member_id = follower.one().member_id
        fields = {"group_id": "billing", "generation_id": 1, "member_id": member_id}
        follower.send_entity(SYNC, 3, assignments=[], **fields)
        follower.disconnect()
        again = self.world.kafka_client()
        self.assertEqual(again.ask_entity(HEARTBEAT, 3, **fields).error_code, ErrorCode.none)
        self.world.clock.advance(10)
        self.assertEqual(again.ask_entity(HEARTBEAT, 3, **fields).error_code, ErrorCode.unknown_member_id)
