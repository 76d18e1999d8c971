"""
Every client of Kafka that can be had, in every scenario, against one broker that has nearly its defaults.

Members of groups, who have to die in them, are in L{tests.integration.test_groups}.
"""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from kafka import KafkaAdminClient, TopicPartition

from tests.integration.daemon import PATIENCE_SECONDS, Daemon
from tests.integration.drivers import ALL_CLIENTS, acting
from tests.integration.kafka_clients import ADMINISTERED, Confluent, KafkaUser, Message

MESSAGES = [
    Message(b"one", b"key", (("h1", b"v1"), ("h2", b""))),
    Message(b"two"),
    Message("drei \N{SNOWMAN}".encode(), b"k"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests here, which use topics of their own; it has nothing to complain of in the end."""
    kafka = "kafka=tcp:0:interface=127.0.0.1"
    # Some clients can not read without being in a group, and would wait for others to join each time.
    quick = "--set=group.initial.rebalance.delay.ms=0"
    with Daemon(tmp_path_factory.mktemp("stock"), "--partitions=2", quick, listen=kafka) as daemon:
        yield daemon
        assert daemon.complaints() == []


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return "".join(each if each.isalnum() else "-" for each in request.node.name)


ADMINISTRATORS = tuple(each for each in ALL_CLIENTS if each.can_administer)


def name_of(kind: type[KafkaUser]) -> str:
    return kind.__name__


@pytest.fixture(scope="module", params=ALL_CLIENTS, ids=name_of)
def user(request: pytest.FixtureRequest, broker: Daemon) -> Iterator[KafkaUser]:
    """Each client; those in other languages, in one process each."""
    with acting(request.param, f"127.0.0.1:{broker.port}") as user:
        yield user


def placed(messages: list[Message], offsets: list[int]) -> list[Message]:
    return [
        Message(each.value, each.key, each.headers, offset)
        for each, offset in zip(messages, offsets, strict=True)
    ]


def test_write_and_read(user: KafkaUser, topic: str) -> None:
    """
    What a client writes, to a topic that nobody made, it reads again: values, headers, offsets, and keys and
    values that are null.
    """
    messages = list(MESSAGES)
    if user.can_leave_values_out:
        messages += [Message(None, b"gone"), Message(b"")]
    offsets = user.produce(topic, messages, partition=1)
    assert offsets == list(range(len(messages)))
    assert user.consume(topic, len(messages), partition=1) == placed(messages, offsets)


def test_others_understand(user: KafkaUser, topic: str) -> None:
    """What a client writes, librdkafka reads, and the reverse."""
    other = Confluent(user.server)
    expected = placed(MESSAGES, user.produce(topic, MESSAGES))
    expected += placed(MESSAGES, other.produce(topic, MESSAGES))
    assert other.consume(topic, len(expected)) == expected
    assert user.consume(topic, len(expected)) == expected


def test_seek(user: KafkaUser, topic: str) -> None:
    """A consumer goes back, and forth."""
    user.produce(topic, [Message(b"%d" % number) for number in range(4)])
    found = user.read(topic, [(0, 4), (1, 2), (3, 1), (0, 1)])
    assert [[each.offset for each in step] for step in found] == [[0, 1, 2, 3], [1, 2], [3], [0]]


def test_compressions(user: KafkaUser, topic: str) -> None:
    """Batches are kept as they are, with every compression that the client has."""
    expected: list[bytes | None] = []
    for compression in user.compressions:
        values: list[bytes | None] = [f"{compression} {number} ".encode() * 20 for number in range(3)]
        user.produce(topic, [Message(each) for each in values], compression=compression)
        expected += values
    assert [each.value for each in user.consume(topic, len(expected))] == expected


def test_large_message(user: KafkaUser, topic: str) -> None:
    """A message of 5 MB goes through whole, in both directions."""
    large = b"0123456789abcdef" * 327_680
    assert user.produce(topic, [Message(large)]) == [0]
    assert user.produce(topic, [Message(b"small")]) == [1]
    assert [each.value for each in user.consume(topic, 2)] == [large, b"small"]


def test_offsets_for_times(user: KafkaUser, topic: str) -> None:
    """The first message that is not older than a time is found."""
    producer = confluent_kafka.Producer({"bootstrap.servers": user.server})
    for timestamp in (1000, 3000, 2000):
        producer.produce(topic, b"value", partition=0, timestamp=timestamp)
        assert producer.flush(PATIENCE_SECONDS) == 0
    found = [user.offset_for_time(topic, timestamp) for timestamp in (500, 1500, 3001)]
    assert found == [0, 1, -1]


@pytest.mark.parametrize("user", ADMINISTRATORS, ids=name_of, indirect=True)
def test_administration(user: KafkaUser, topic: str) -> None:
    """A topic is made, looked at, changed, made larger, and deleted."""
    assert user.administer(topic) == ADMINISTERED


def test_idempotence(user: KafkaUser, topic: str) -> None:
    """The broker knows the sequence of what an idempotent producer has sent, and that of no other one."""
    for idempotent in (user.is_always_idempotent, True):
        user.produce(topic, MESSAGES, idempotent=idempotent)
    admin = KafkaAdminClient(bootstrap_servers=user.server)
    place = TopicPartition(topic, 0)
    producers = admin.describe_producers([place])[place].active_producers
    admin.close()
    batches = 2 if user.is_always_idempotent else 1
    assert sum(each.last_sequence + 1 for each in producers) == batches * len(MESSAGES)
    assert user.consume(topic, 1, offset=5)[0].value == MESSAGES[-1].value
