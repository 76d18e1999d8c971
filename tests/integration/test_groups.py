"""Consumer groups of real Kafka clients against a real broker."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.daemon import Daemon, every_now_and_then, free_port
from tests.integration.members import CLIENTS, Members
from tests.integration.toolchains import Missing

OPTIONS = (
    "--sync=never",
    "--set=group.initial.rebalance.delay.ms=300",
    "--set=group.min.session.timeout.ms=1000",
)


class Scene:
    """
    A group, its topic, and processes with members.

    @ivar name: of the group, and of the topic.
    """

    def __init__(self, daemon: Daemon, name: str) -> None:
        self.daemon = daemon
        self.name = name
        self.processes: list[Members] = []

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self.daemon.ports[1]}"

    def create(self, partitions: int) -> None:
        with self.daemon.client() as client:
            client.create(self.name, partitions)

    def start(self, client: str, **more: Any) -> Members:
        try:
            self.processes.append(Members(client, self.server, self.name, self.name, **more))
        except Missing as reason:
            pytest.skip(f"{client}: {reason}")
        return self.processes[-1]

    def wait_for_commits(self, *offsets: int) -> None:
        """Wait until the broker has these offsets of the group, one for each partition."""
        place = {"topic": self.name, "group_id": self.name}
        with self.daemon.client() as client:

            def is_so() -> bool:
                found = (client.call("OffsetFetch", partition=each, **place) for each in range(len(offsets)))
                return [each.get("OffsetFetch", {}).get("offset") for each in found] == list(offsets)

            self.wait(f"{offsets} are committed", is_so)

    def produce(self, partitions: int, each: int = 1) -> set[tuple[int, int]]:
        """Some records in each partition; where they are."""
        found = set()
        with self.daemon.client() as client:
            for partition in range(partitions):
                records = [[1]] * each
                answer = client.call("Produce", topic=self.name, partition=partition, records=records)
                found.update((partition, offset) for offset in answer["Produce"]["offsets"])
        return found

    def wait_for_log(self, words: str) -> None:
        """Wait until the broker says something about the group."""
        self.daemon.wait_for_log(f"group '{re.escape(self.name)}': [^\\n]*{words}")

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        for _ in every_now_and_then(what, self.describe):
            if is_so():
                return

    def describe(self) -> str:
        members = "\n".join(each.describe() for each in self.processes)
        return f"{members}\n{self.daemon.describe()}"

    def wait_for_shares(self, shares: dict[Members, int], partitions: int) -> None:
        """Wait until all partitions are owned, so many by each process."""

        def is_shared() -> bool:
            owned = [partition for each in shares for partition in each.partitions()]
            counts = all(len(each.partitions()) == count for each, count in shares.items())
            return counts and sorted(owned) == list(range(partitions))

        self.wait(f"{list(shares.values())} partitions are owned", is_shared)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """
    One broker for all: it listens for RustLog, and for Kafka on a port that it keeps when it is started
    again.
    """
    kafka = f"--listen=kafka=tcp:{free_port()}:interface=127.0.0.1"
    with Daemon(tmp_path_factory.mktemp("groups"), kafka, *OPTIONS) as daemon:
        yield daemon


@pytest.fixture
def scene(daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A group of its own for each test."""
    scene = Scene(daemon, "".join(each if each.isalnum() else "-" for each in request.node.name))
    yield scene
    for each in scene.processes:
        each.kill()


@pytest.mark.parametrize("client", CLIENTS)
def test_two_share_and_one_dies(scene: Scene, client: str) -> None:
    """
    Two members share the partitions; when one dies, the other has all of them, and goes on where the dead one
    has committed.
    """
    scene.create(4)
    first = scene.start(client)
    scene.wait_for_shares({first: 4}, 4)
    second = scene.start(client)
    scene.wait_for_shares({first: 2, second: 2}, 4)
    records = scene.produce(4, 3)
    scene.wait("all is read", lambda: {*first.records(), *second.records()} == records)
    scene.wait_for_commits(3, 3, 3, 3)
    before = len(first.records())
    second.kill()
    scene.wait_for_shares({first: 4}, 4)
    scene.wait_for_log("is gone: nothing was heard of it within its session timeout")
    more = scene.produce(4)
    scene.wait("the rest is read", lambda: more <= set(first.records()))
    assert set(first.records()[before:]) == more, "nothing is read again"
    first.leave()
    scene.wait_for_log("is gone: it said so")


@pytest.mark.parametrize("client", CLIENTS)
def test_resume(scene: Scene, client: str) -> None:
    """Who comes back goes on where it was, also after the broker was killed."""
    scene.create(2)
    records = scene.produce(2, 5)
    first = scene.start(client)
    scene.wait_for_commits(5, 5)
    assert set(first.records()) == records
    first.leave()
    scene.daemon.kill()
    scene.daemon.start()
    more = scene.produce(2)
    second = scene.start(client)
    scene.wait("the rest is read", lambda: set(second.records()) == more)


def test_different_clients(scene: Scene) -> None:
    """Members of one group may be of different make, as long as they know the same protocol."""
    scene.create(6)
    members = [scene.start(client) for client in ("confluent", "kafka-python")]
    members.append(scene.start("confluent", settings={"partition.assignment.strategy": "range"}))
    scene.wait_for_shares(dict.fromkeys(members, 2), 6)
    records = scene.produce(6)
    scene.wait("all is read", lambda: {each for member in members for each in member.records()} == records)


def test_cooperative_sticky(scene: Scene) -> None:
    """Members keep what stays theirs in a rebalance; the rest is handed over in a second one."""
    scene.create(4)
    settings = {"partition.assignment.strategy": "cooperative-sticky"}
    first = scene.start("confluent", settings=settings)
    scene.wait_for_shares({first: 4}, 4)
    second = scene.start("confluent", settings=settings)
    scene.wait_for_shares({first: 2, second: 2}, 4)
    kept = set(first.partitions())
    for owned in first.ownerships()[1:]:
        assert kept <= set(owned.partitions), first.ownerships()
    second.leave()
    scene.wait_for_shares({first: 4}, 4)


def test_static_members(scene: Scene) -> None:
    """A static member that is killed and comes back has what it had, and the others notice nothing."""
    scene.create(4)

    def start(instance: str) -> Members:
        settings = {"group.instance.id": instance}
        return scene.start("confluent", settings=settings, session_ms=20_000)

    first, second = start("one"), start("two")
    scene.wait_for_shares({first: 2, second: 2}, 4)
    owned, generation = second.partitions(), second.owned()[0].generation
    second.kill()
    again = start("two")
    scene.wait_for_shares({first: 2, again: 2}, 4)
    assert again.partitions() == owned
    assert again.owned()[0].generation == generation == first.owned()[0].generation
    scene.wait_for_log("another client with its group.instance.id took its place")


def test_one_progress(scene: Scene) -> None:
    """What Kafka's clients commit, the RustLog protocol sees; it may commit, too, while there are members."""
    scene.create(1)
    scene.produce(1, 3)
    member = scene.start("confluent")
    scene.wait_for_commits(3)
    place = {"topic": scene.name, "partition": 0, "group_id": scene.name}
    with scene.daemon.client() as client:
        assert client.call("OffsetFetch", **place) == {"OffsetFetch": {"offset": 3}}
        assert client.call("OffsetCommit", **place, offset=1) == {"OffsetCommit": {"success": True}}
    member.leave()
    again = scene.start("confluent")
    scene.wait("it reads again", lambda: again.records() == [(0, 1), (0, 2)])


def test_administration(scene: Scene) -> None:
    """Groups are listed, described and deleted; one with members is not deleted."""
    scene.create(2)
    scene.produce(2)
    member = scene.start("confluent")
    scene.wait_for_commits(1, 1)
    admin = AdminClient({"bootstrap.servers": scene.server})
    listed = {each.group_id: each for each in admin.list_consumer_groups().result(10).valid}[scene.name]
    assert (listed.state.name, listed.type.name) == ("STABLE", "CLASSIC")
    described = admin.describe_consumer_groups([scene.name])[scene.name].result(10)
    assert described.partition_assignor == "range"
    (owner,) = described.members
    assert sorted(each.partition for each in owner.assignment.topic_partitions) == [0, 1]
    wanted = confluent_kafka.ConsumerGroupTopicPartitions(scene.name)
    found = admin.list_consumer_group_offsets([wanted])[scene.name].result(10)
    assert {each.partition: each.offset for each in found.topic_partitions} == {0: 1, 1: 1}
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.delete_consumer_groups([scene.name])[scene.name].result(10)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.NON_EMPTY_GROUP
    member.leave()
    admin.delete_consumer_groups([scene.name])[scene.name].result(10)
    assert scene.name not in {each.group_id for each in admin.list_consumer_groups().result(10).valid}


def test_stop_does_not_wait_for_members(scene: Scene) -> None:
    """A broker that is stopped while members wait for each other ends at once; they find it again."""
    scene.create(2)
    first = scene.start("confluent", session_ms=30_000)
    scene.wait_for_shares({first: 2}, 2)
    first.kill()
    second = scene.start("confluent", session_ms=30_000)
    scene.wait_for_log(r"generation 1 ends with a rebalance")
    begun = time.monotonic()
    scene.daemon.stop()
    assert time.monotonic() - begun < 5
    scene.daemon.start()
    scene.wait_for_log("it did not join again|within its session timeout|a member joined")
    assert second.is_alive


# -- many ------------------------------------------------------------------------------

PARTITIONS = 50
PROCESSES = 4
MEMBERS_EACH = 5


def test_twenty_members(scene: Scene) -> None:
    """
    Twenty members over fifty partitions settle after a mass join and after half of them are killed, and go on
    when the broker is stopped, or killed, and started again; nobody ever owns what another one owns in the
    same generation, and all is read.
    """
    scene.create(PARTITIONS)
    crowd = [scene.start("aiokafka", members=MEMBERS_EACH) for _ in range(PROCESSES)]
    settle(scene, crowd)
    records = scene.produce(PARTITIONS)
    wait_for_records(scene, crowd, records)
    for each in crowd[: PROCESSES // 2]:
        each.kill()
    survivors = crowd[PROCESSES // 2 :]
    settle(scene, survivors)
    records |= scene.produce(PARTITIONS)
    wait_for_records(scene, crowd, records)
    for end in (scene.daemon.stop, scene.daemon.kill):
        end()
        scene.daemon.start()
        records |= scene.produce(PARTITIONS)
        wait_for_records(scene, crowd, records)
        settle(scene, survivors)
    check_ownership(crowd)


def settle(scene: Scene, crowd: list[Members]) -> None:
    """Wait until all members own all partitions, in one generation."""

    def is_settled() -> bool:
        owned = [each for members in crowd for each in members.owned()]
        is_complete = len(owned) == sum(members.count for members in crowd)
        partitions = sorted(partition for each in owned for partition in each.partitions)
        generations = {each.generation for each in owned}
        return is_complete and partitions == list(range(PARTITIONS)) and len(generations) == 1

    scene.wait("all members own all partitions", is_settled)


def wait_for_records(scene: Scene, crowd: list[Members], records: set[tuple[int, int]]) -> None:
    scene.wait("all is read", lambda: {each for members in crowd for each in members.records()} >= records)


def check_ownership(crowd: list[Members]) -> None:
    """In one generation, a partition has one owner; and nobody reads what it does not own."""
    owners: dict[tuple[int, int], str] = {}
    for members in crowd:
        for each in members.ownerships():
            for partition in each.partitions:
                owner = owners.setdefault((each.generation, partition), each.member)
                assert owner == each.member, f"{partition} has two owners: {owner}, {each}"
        for event in members.events:
            if event["event"] == "record":
                reader = f"{members.name}/{event['member']}"
                assert owners[event["generation"], event["partition"]] == reader
