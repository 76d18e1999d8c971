"""What clients of Fluvio and of the other protocols write, the others read; and groups have one progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.daemon import Daemon, free_port
from tests.integration.fluvio_user import NO_KEY, FluvioUser, decoded, fluvio_user
from tests.integration.kafka_clients import Confluent, Message
from tests.integration.test_minikafka import MiniClient, consume_over_kafka

PAIRS = [(b"k%d" % (each % 7), b"value %d" % each) for each in range(100)]

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

STORES = ("memory", "segments", "minikafka")


@pytest.fixture(params=STORES)
def broker(make_daemon: Callable[..., Daemon], request: pytest.FixtureRequest) -> Daemon:
    """Its ports are those of rustlog, kafka, minikafka and fluvio."""
    return make_daemon(
        f"--storage={request.param}",
        "--offsets=file",
        f"--listen=kafka=tcp:{free_port()}:interface=127.0.0.1",
        "--listen=minikafka=tcp:0:interface=127.0.0.1",
        "--listen=fluvio=tcp:0:interface=127.0.0.1",
        "--set=group.initial.rebalance.delay.ms=0",
    ).start()


@pytest.fixture
def user(broker: Daemon) -> Iterator[FluvioUser]:
    with fluvio_user(f"127.0.0.1:{broker.ports[3]}") as user:
        yield user


@pytest.fixture
def mini(broker: Daemon) -> Iterator[MiniClient]:
    client = MiniClient(broker.ports[2])
    yield client
    client.close()


def kafka(broker: Daemon) -> Confluent:
    return Confluent(f"127.0.0.1:{broker.ports[1]}")


def test_from_fluvio(broker: Daemon, user: FluvioUser, mini: MiniClient) -> None:
    """What was produced with Fluvio is read over Kafka, RustLog and MiniKafka: same keys, values, order."""
    values = [value for _, value in PAIRS]
    for each in COMPRESSIONS:
        user.create(each)
        user.produce(each, PAIRS, compression=each)
        found = kafka(broker).consume(each, 100)
        assert [(message.key, message.value) for message in found] == PAIRS
        assert [message.offset for message in found] == list(range(100))
        with broker.client() as rustlog:
            assert rustlog.read_all(each) == dict(enumerate(values))
        assert mini.consume(f"{each}:bar:0", 100) == values


def test_from_kafka(broker: Daemon, user: FluvioUser) -> None:
    """What was produced over Kafka is read with Fluvio, even from topics that Fluvio would not allow."""
    for each in COMPRESSIONS:
        messages = [Message(value, key) for key, value in PAIRS]
        kafka(broker).produce(f"{each}_Orders.1", messages, compression=each)
        assert [(key, value) for _, key, value in user.read(f"{each}_Orders.1", 100)] == PAIRS


def test_from_kafka_without_keys_and_values(make_daemon: Callable[..., Daemon]) -> None:
    """A key that is not there is none; a value that is not there is empty; headers are not shown."""
    broker = make_daemon(
        "--storage=memory",
        f"--listen=kafka=tcp:{free_port()}:interface=127.0.0.1",
        "--listen=fluvio=tcp:0:interface=127.0.0.1",
    ).start()
    kafka(broker).produce("orders", [Message(b"a"), Message(None, b"k", (("h", b"1"),))])
    with fluvio_user(f"127.0.0.1:{broker.ports[2]}") as user:
        assert user.read("orders", 2) == [(0, NO_KEY, b"a"), (1, b"k", b"")]


def test_from_rustlog_and_minikafka(broker: Daemon, user: FluvioUser, mini: MiniClient) -> None:
    """What was produced over RustLog and MiniKafka is read with Fluvio, while it comes."""
    with broker.client() as rustlog:
        rustlog.create("orders")
        user.open("live", "orders")
        for each in range(5):
            records = [list(b"r%d" % each)]
            rustlog.call("Produce", topic="orders", partition=0, records=records)
            mini.produce("orders", "k", b"m%d" % each)
    found = [value for _, _, value in decoded(user.next("live", 10))]
    assert found == [b"%s%d" % (kind, each) for each in range(5) for kind in (b"r", b"m")]


def test_topics_of_others(broker: Daemon, user: FluvioUser) -> None:
    """Topics that others make and grow and delete are seen by those who are connected already."""
    assert user.list() == []
    with broker.client() as rustlog:
        rustlog.create("orders", 2)
        assert user.list() == ["orders"]
        user.produce("orders", PAIRS)
        answer = rustlog.call("DeleteTopic", topic="orders")
        assert "DeleteTopic" in answer, answer
    assert user.list() == []


def test_one_group_over_all_protocols(broker: Daemon, user: FluvioUser, mini: MiniClient) -> None:
    """A group goes on over one protocol where it stopped over another: nothing lost, nothing twice."""
    user.create("orders")
    values = [b"%d" % each for each in range(16)]
    user.produce("orders", [(b"k", each) for each in values])
    found = read_over_fluvio(user, "first", 3)
    found += consume_over_kafka(broker, "bar", 3)
    found += mini.consume("orders:bar:0", 2)
    found += read_over_fluvio(user, "second", 4)
    with broker.client() as rustlog:
        place = {"topic": "orders", "partition": 0, "group_id": "bar"}
        answer = rustlog.call("Fetch", **place, offset=0, max_bytes=2, auto_commit=True)["Fetch"]
        found += [bytes(each["payload"]) for each in answer["records"]]
    found += read_over_fluvio(user, "third", 16 - len(found))
    assert found == values
    assert user.offsets() == [["bar", "orders", 0, 15]]
    assert mini.ask(b"orders:bar:0\n") == b"+EMPTY\n"


def read_over_fluvio(user: FluvioUser, name: str, count: int) -> list[bytes]:
    user.open(name, "orders", consumer="bar", strategy="MANUAL")
    found = [value for _, _, value in decoded(user.next(name, count))]
    user.commit(name)
    return found
