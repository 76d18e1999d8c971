"""Where Kafka's clients are told to connect to: where they did, or what C{--advertise} says."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tests.integration.daemon import PATIENCE_SECONDS, Daemon, free_port
from tests.integration.drivers import ALL_CLIENTS, KafkaJS, Platformatic, acting
from tests.integration.kafka_clients import KafkaUser, Message


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """
    It listens on one port of 127.0.0.1 and ::1, as it does by default, and on another one, where it has a
    name of its own.
    """
    port, named = free_port(), free_port()
    with Daemon(
        tmp_path_factory.mktemp("advertise"),
        rf"--listen=near6/kafka=tcp:{port}:interface=\:\:1",
        f"--listen=named/kafka=tcp:{named}:interface=127.0.0.1",
        f"--advertise=named=localhost:{named}",
        "--set=group.initial.rebalance.delay.ms=0",
        listen=f"near/kafka=tcp:{port}:interface=127.0.0.1",
    ) as daemon:
        yield daemon
        assert daemon.complaints() == []


def servers(broker: Daemon, kind: type[KafkaUser]) -> list[str]:
    """Where a client can be told to begin."""
    near, _, named = broker.ports
    found = [f"127.0.0.1:{near}", f"localhost:{near}", f"127.0.0.1:{named}", f"localhost:{named}"]
    # Those for Node.js do not know brackets: there, ::1 is what localhost may stand for.
    return found if kind in (KafkaJS, Platformatic) else [*found, f"[::1]:{near}"]


@pytest.mark.parametrize("kind", ALL_CLIENTS, ids=lambda each: each.__name__)
def test_every_way_in(broker: Daemon, kind: type[KafkaUser]) -> None:
    """Whatever address a client begins with, it finds the broker, and stays there."""
    topic = f"ways-{kind.__name__}"
    with acting(kind, "") as user:
        for number, server in enumerate(servers(broker, kind)):
            user.server = server
            assert user.produce(topic, [Message(server.encode())]) == [number], server
            assert [each.value for each in user.consume(topic, 1, offset=number)] == [server.encode()]


def test_what_is_told(broker: Daemon) -> None:
    """By default the address that the client has connected to, otherwise the one that is advertised."""
    near, _, named = broker.ports
    for server, told in (
        (("127.0.0.1", near), ("127.0.0.1", near)),
        (("::1", near), ("::1", near)),
        (("127.0.0.1", named), ("localhost", named)),
    ):
        assert told_at(*server) == told


def told_at(host: str, port: int) -> tuple[str, int]:
    """The one broker in an answer to Metadata.  (Clients ask again elsewhere, and hide the first answer.)"""
    with socket.create_connection((host, port), PATIENCE_SECONDS) as connection:
        connection.sendall(struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0))
        answer = connection.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        body = answer.read(length)
    correlation_id, count, _, size = struct.unpack_from(">iiih", body)
    assert (correlation_id, count) == (7, 1)
    (told_port,) = struct.unpack_from(">i", body, 14 + size)
    return body[14 : 14 + size].decode(), told_port
