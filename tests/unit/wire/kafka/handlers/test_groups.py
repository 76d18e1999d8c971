"""Tests for L{rustlog.wire.kafka.handlers.groups} and L{rustlog.wire.kafka.handlers.grouplists}."""

from __future__ import annotations

from typing import Any

from rustlog.broker import Broker
from rustlog.errors import Closed, NotCoordinator, StorageFull
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.grouping import group_code_for
from rustlog.wire.kafka.handlers.groups import client_host
from rustlog.wire.kafka.schema import Entity
from tests.unit.wire.kafka.harness import HandlerCase

FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE = 10, 11, 12, 13, 14, 15, 16, 42
COMMIT = 8
RANGE = [{"name": "range", "metadata": b"subscription"}]


class GroupCase(HandlerCase):
    """Members of groups, through the bytes of their requests."""

    def join_fields(self, group: str, member_id: str = "", **more: Any) -> dict[str, Any]:
        return {
            "group_id": group,
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": RANGE,
            **more,
        }

    def join(self, group: str, version: int = 9, **more: Any) -> Entity:
        """Join as the only member of a group, the whole way; the answer."""
        fields = self.join_fields(group, **more)
        if version >= 4 and "group_instance_id" not in more:
            refused = self.ask(JOIN, version, **fields)
            self.assertEqual(refused.error_code, ErrorCode.member_id_required)
            fields["member_id"] = refused.member_id
        waiting = self.begin(JOIN, version, **fields)
        self.assertNoResult(waiting)
        self.world.clock.advance(3)
        return self.successResultOf(waiting)

    def sync(self, group: str, joined: Entity, version: int = 5, **more: Any) -> Entity:
        """The leader assigns itself all."""
        share = {"member_id": joined.member_id, "assignment": b"all"}
        return self.ask(
            SYNC, version, group_id=group, generation_id=joined.generation_id, member_id=joined.member_id,
            assignments=[share], **more,
        )  # fmt: skip


class FindCoordinatorTests(GroupCase):
    """Where groups are looked after."""

    def test_every_version(self) -> None:
        """It is here, wherever the client knows us to be."""
        for version in self.versions(FIND):
            asked = {"key": "billing"} if version < 4 else {"coordinator_keys": ["billing"]}
            response = self.ask(FIND, version, **asked)
            found = response if version < 4 else response.coordinators[0]
            self.assertEqual((found.node_id, found.host, found.port), (0, "broker.example", 9092))
            self.assertEqual(found.error_code, ErrorCode.none)

    def test_many(self) -> None:
        """New versions ask for many at once."""
        response = self.ask(FIND, coordinator_keys=["a", "b"])
        self.assertEqual([each.key for each in response.coordinators], ["a", "b"])

    def test_transactions(self) -> None:
        """There is nobody for transactions, and it is no use to try again."""
        for version in range(1, 7):
            asked = {"key": "tx"} if version < 4 else {"coordinator_keys": ["tx"]}
            response = self.ask(FIND, version, key_type=1, **asked)
            found = response if version < 4 else response.coordinators[0]
            self.assertEqual(found.error_code, ErrorCode.transactional_id_authorization_failed)
            self.assertEqual(found.error_message, "transactions are not supported by this broker")

    def test_unknown_type(self) -> None:
        """Nor for anything else."""
        (found,) = self.ask(FIND, key_type=2, coordinator_keys=["share"]).coordinators
        self.assertEqual(found.error_code, ErrorCode.invalid_request)

    def test_not_me(self) -> None:
        """A broker that looks after no groups says that it knows nobody who does."""
        self.world.broker._coordinator = None
        (found,) = self.ask(FIND, coordinator_keys=["billing"]).coordinators
        self.assertEqual((found.error_code, found.node_id), (ErrorCode.coordinator_not_available, -1))
        response = self.ask(HEARTBEAT, group_id="billing", generation_id=1, member_id="m")
        self.assertEqual(response.error_code, ErrorCode.not_coordinator)
        self.assertRaises(NotCoordinator, Broker.coordinator_for, self.world.broker, None, "billing")


class MembershipTests(GroupCase):
    """A member's life."""

    def test_every_version(self) -> None:
        """Join, sync, heartbeat and leave, in all versions."""
        for version in self.versions(JOIN):
            group = f"group {version}"
            joined = self.join(group, version)
            self.assertEqual(joined.error_code, ErrorCode.none)
            self.assertEqual((joined.generation_id, joined.protocol_name), (1, "range"))
            self.assertEqual((joined.leader, joined.members[0].metadata), (joined.member_id, b"subscription"))
            names = {"protocol_type": "consumer", "protocol_name": "range"}
            synced = self.sync(group, joined, min(version, 5), **names)
            self.assertEqual((synced.error_code, synced.assignment), (ErrorCode.none, b"all"))
            member = {"group_id": group, "member_id": joined.member_id}
            alive = self.ask(HEARTBEAT, min(version, 4), generation_id=1, **member)
            self.assertEqual(alive.error_code, ErrorCode.none)
            left = self.ask(
                LEAVE, min(version, 5), members=[{"member_id": joined.member_id, "reason": "bye"}], **member
            )
            self.assertEqual(left.error_code, ErrorCode.none)
            if version >= 3:
                self.assertEqual([each.error_code for each in left.members], [ErrorCode.none])
            gone = self.ask(HEARTBEAT, min(version, 4), generation_id=1, **member)
            self.assertEqual(gone.error_code, ErrorCode.unknown_member_id)

    def test_refused_join(self) -> None:
        """Refusals have their codes, and the id of the one who asked, in every version."""
        for version in self.versions(JOIN):
            refused = self.ask(JOIN, version, **self.join_fields("billing", "nobody"))
            self.assertEqual(
                (refused.error_code, refused.generation_id, refused.member_id, refused.leader),
                (ErrorCode.unknown_member_id, -1, "nobody", ""),
            )
            self.assertEqual(refused.protocol_name, "" if version < 7 else None)

    def test_other_refusals(self) -> None:
        """A session timeout out of bounds, no protocols, no name, a bad instance id."""
        for more, code in (
            ({"session_timeout": 1}, ErrorCode.invalid_session_timeout),
            ({"protocols": []}, ErrorCode.inconsistent_group_protocol),
            ({"group_id": ""}, ErrorCode.invalid_group_id),
            ({"group_instance_id": "a b"}, ErrorCode.invalid_config),
        ):
            refused = self.ask(JOIN, **self.join_fields("billing", **more) if "group_id" not in more
                               else {**self.join_fields("x"), **more})  # fmt: skip
            self.assertEqual(refused.error_code, code)

    def test_one_timeout(self) -> None:
        """In the oldest version, the session timeout is that of the rebalance, too."""
        self.join("billing", 0)
        member = next(iter(self.world.coordinator._cells["billing"].group.members))
        self.assertEqual((member.session_timeout_ms, member.rebalance_timeout_ms), (10_000, 10_000))

    def test_client_is_gone(self) -> None:
        """A client that hangs up while it joins leaves nothing behind."""
        waiting = self.begin(JOIN, 3, **self.join_fields("billing"))
        waiting.cancel()
        self.failureResultOf(waiting)
        self.world.clock.advance(3)
        self.assertEqual(self.world.coordinator._cells, {})

    def test_refused_sync(self) -> None:
        """A stranger has nothing."""
        for version in self.versions(SYNC):
            nobody = {"group_id": "billing", "generation_id": 1, "member_id": "m"}
            refused = self.ask(SYNC, version, assignments=[], **nobody)
            self.assertEqual((refused.error_code, refused.assignment), (ErrorCode.unknown_member_id, b""))

    def test_static_member(self) -> None:
        """A static member comes back without a rebalance; the old one is fenced."""
        joined = self.join("billing", group_instance_id="one")
        self.sync("billing", joined, group_instance_id="one")
        again = self.ask(JOIN, **self.join_fields("billing", group_instance_id="one"))
        self.assertEqual((again.error_code, again.generation_id), (ErrorCode.none, 1))
        self.assertTrue(again.skip_assignment)
        old = {"member_id": joined.member_id, "group_instance_id": "one"}
        fenced = self.ask(HEARTBEAT, group_id="billing", generation_id=1, **old)
        self.assertEqual(fenced.error_code, ErrorCode.fenced_instance_id)

    def test_leave_many(self) -> None:
        """Each has its own answer."""
        joined = self.join("billing")
        response = self.ask(
            LEAVE, group_id="billing", members=[{"member_id": "nobody"}, {"member_id": joined.member_id}]
        )
        codes = [each.error_code for each in response.members]
        self.assertEqual(codes, [ErrorCode.unknown_member_id, ErrorCode.none])
        self.assertEqual(self.ask(LEAVE, group_id="", members=[]).error_code, ErrorCode.invalid_group_id)

    def test_old_leave(self) -> None:
        """In the old versions, the answer is that of the only one."""
        response = self.ask(LEAVE, 2, group_id="billing", member_id="nobody")
        self.assertEqual(response.error_code, ErrorCode.unknown_member_id)

    def test_hosts(self) -> None:
        """Clients are shown as Kafka shows them."""
        self.assertEqual(client_host("127.0.0.1:4711"), "/127.0.0.1")
        self.assertEqual(client_host("[::1]:4711"), "/::1")
        self.assertEqual(client_host("a local client"), "/")

    def test_trouble_with_the_store(self) -> None:
        """Clients are not sent to look for the leader of a partition."""
        for error in (Closed(), StorageFull()):
            self.assertEqual(group_code_for(error), ErrorCode.coordinator_not_available)


class LookingTests(GroupCase):
    """Listing, describing, deleting."""

    def setUp(self) -> None:
        super().setUp()
        joined = self.join("active")
        self.sync("active", joined)
        self.member_id = joined.member_id
        partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
        topics = [{"name": "orders", "partitions": [partition]}]
        self.ask(COMMIT, 9, group_id="quiet", member_id="", topics=topics)

    def test_list(self) -> None:
        """All groups, in all versions."""
        for version in self.versions(LIST):
            groups = self.ask(LIST, version).groups
            self.assertEqual([(each.group_id, each.protocol_type) for each in groups],
                             [("active", "consumer"), ("quiet", "")])  # fmt: skip
        self.assertEqual([(each.group_state, each.group_type) for each in groups],
                         [("Stable", "Classic"), ("Empty", "Classic")])  # fmt: skip

    def test_filters(self) -> None:
        """Those of certain states and types only, however they are written."""
        for fields, expected in (
            ({"states_filter": ["stable"]}, ["active"]),
            ({"states_filter": ["Empty", "Dead"]}, ["quiet"]),
            ({"types_filter": ["classic"]}, ["active", "quiet"]),
            ({"types_filter": ["Consumer"]}, []),
        ):
            self.assertEqual([each.group_id for each in self.ask(LIST, **fields).groups], expected)

    def test_describe(self) -> None:
        """Members, what they say and what they own, in all versions."""
        for version in self.versions(DESCRIBE):
            (group,) = self.ask(DESCRIBE, version, groups=["active"]).groups
            self.assertEqual((group.error_code, group.group_state), (ErrorCode.none, "Stable"))
            self.assertEqual((group.protocol_type, group.protocol_data), ("consumer", "range"))
            (member,) = group.members
            self.assertEqual((member.client_id, member.client_host), ("test-client", "/127.0.0.1"))
            self.assertEqual((member.member_id, member.member_metadata), (self.member_id, b"subscription"))
            self.assertEqual(member.member_assignment, b"all")

    def test_describe_nobody(self) -> None:
        """What is not there is dead to old clients, and an error to new ones."""
        for version in self.versions(DESCRIBE):
            (group,) = self.ask(DESCRIBE, version, groups=["nobody"]).groups
            code = ErrorCode.none if version < 6 else ErrorCode.group_id_not_found
            self.assertEqual((group.error_code, group.group_state), (code, "Dead"))

    def test_operations(self) -> None:
        """Who asks what he may do is told; who does not, is not."""
        (group,) = self.ask(DESCRIBE, groups=["quiet"], include_authorized_operations=True).groups
        self.assertEqual((group.group_state, group.authorized_operations), ("Empty", 328))
        (group,) = self.ask(DESCRIBE, groups=["quiet"]).groups
        self.assertEqual(group.authorized_operations, -(2**31))

    def test_delete(self) -> None:
        """Only groups without members can be deleted; with what they have committed."""
        for version in self.versions(DELETE):
            results = self.ask(DELETE, version, groups_names=["active", "nobody"]).results
            codes = [each.error_code for each in results]
            self.assertEqual(codes, [ErrorCode.non_empty_group, ErrorCode.group_id_not_found])
        (result,) = self.ask(DELETE, groups_names=["quiet"]).results
        self.assertEqual(result.error_code, ErrorCode.none)
        self.assertEqual([each.group_id for each in self.ask(LIST).groups], ["active"])
