"""
What a broker holds when nothing happens, and the most that it takes from clients who mean it no good.

First many partitions, each with a record, and many connections that say nothing.  Then, each with a fresh
broker: clients that ask for large answers and never read them; connections that announce
frames of 10 MiB and send next to nothing of them; and the same, sending all but the last byte.  Growth
is the peak RSS less the RSS before the attack, to be compared with queued.max.request.bytes.
"""

from __future__ import annotations

import argparse
import select
import socket
import time
from collections.abc import Callable, Iterator

from common import MIB, Broker, Connection, Report, Row, announcement, arguments, broker, frame

FRAME_BYTES_MAX = 10_485_760
TOPIC = "bench"
RECORD = list(bytes(1024))
NEXT_TO_NOTHING = b"[" * 1024
BYSTANDER_SECONDS_MAX = 60

Attack = Callable[[Broker, int, float], list[Connection]]


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    partitions, connections = (50, 50) if options.quick else (options.partitions, options.connections)
    attackers, seconds = (50, 1.0) if options.quick else (options.attackers, options.seconds)
    with broker("--sync=never") as running:
        report.table("at rest", _at_rest(running, partitions, connections))
    title = f"under attack for {seconds:g} s, queued.max.request.bytes={options.budget:,}"
    report.table(title, _under_attack(attackers, seconds, options.budget))
    report.end()


# -- at rest -----------------------------------------------------------------------


def _at_rest(running: Broker, partitions: int, connections: int) -> Iterator[Row]:
    yield _state("started", running)
    with Connection(running.port) as connection:
        started = time.perf_counter()
        connection.create_topic(TOPIC, partitions)
        yield _state(f"a topic of {partitions:,} partitions", running, time.perf_counter() - started)
        started = time.perf_counter()
        for each in range(partitions):
            connection.ask(frame("Produce", topic=TOPIC, partition=each, records=[RECORD]))
        yield _state("a record in each of them", running, time.perf_counter() - started)
    started = time.perf_counter()
    idle = [Connection(running.port) for _ in range(connections)]
    _ask_for_a_sign_of_life(idle[-1])
    yield _state(f"{connections:,} connections", running, time.perf_counter() - started)
    for each in idle:
        each.close()
    with Connection(running.port) as connection:
        _ask_for_a_sign_of_life(connection)
    yield _state("connections closed", running)


def _state(what: str, running: Broker, seconds: float = 0.0) -> Row:
    return {"state": what, "RSS MiB": running.rss_mib(), "handles": running.handles(), "took s": seconds}


def _ask_for_a_sign_of_life(connection: Connection) -> None:
    """When it is answered, everybody who came before has been let in."""
    connection.ask(frame("OffsetFetch", topic=TOPIC, partition=0, group_id="bench"))


# -- under attack ------------------------------------------------------------------


def _under_attack(attackers: int, seconds: float, budget: int) -> Iterator[Row]:
    attacks: list[tuple[str, Attack, int]] = [
        ("never reads", _never_read, 1),
        ("never reads", _never_read, attackers),
        ("announces 10 MiB, sends 1 KiB", _announce, attackers),
        ("announces 10 MiB, sends most", _announce_and_send, attackers),
    ]
    for what, attack, count in attacks:
        with broker("--sync=never", f"--set=queued.max.request.bytes={budget}") as running:
            yield _attacked(running, what, attack, count, seconds, budget)


def _attacked(running: Broker, what: str, attack: Attack, count: int, seconds: float, budget: int) -> Row:
    _fill(running)
    before = running.forget_peak()
    held = attack(running, count, seconds)
    growth = running.peak_rss_mib() - before
    row = {
        "clients": f"{count:,} x {what}",
        "before MiB": before,
        "peak MiB": running.peak_rss_mib(),
        "growth MiB": growth,
        "of budget %": growth * MIB / budget * 100,
        "handles": running.handles(),
        "others wait s": _bystander(running),
    }
    for each in held:
        each.close()
    return row


def _fill(running: Broker) -> None:
    with Connection(running.port) as connection:
        connection.create_topic(TOPIC, 1)
        request = frame("Produce", topic=TOPIC, partition=0, records=[RECORD] * 1000)
        for _ in range(8):
            connection.ask(request)


def _bystander(running: Broker) -> float | str:
    """How long a client waits who means well, and comes while all that goes on."""
    started = time.perf_counter()
    try:
        with Connection(running.port, BYSTANDER_SECONDS_MAX) as connection:
            connection.ask(frame("Produce", topic=TOPIC, partition=0, records=[RECORD]))
    except TimeoutError:
        return f"over {BYSTANDER_SECONDS_MAX}"
    return time.perf_counter() - started


def _never_read(running: Broker, count: int, seconds: float) -> list[Connection]:
    fetch = frame("Fetch", topic=TOPIC, partition=0, offset=0, max_bytes=4 * MIB, group_id=None)
    return _press(_attackers(running, count), fetch, None, seconds)


def _announce(running: Broker, count: int, seconds: float) -> list[Connection]:
    connections = _attackers(running, count)
    for each in connections:
        each.send(announcement(FRAME_BYTES_MAX) + NEXT_TO_NOTHING)
    time.sleep(seconds)
    return connections


def _announce_and_send(running: Broker, count: int, seconds: float) -> list[Connection]:
    connections = _attackers(running, count)
    for each in connections:
        each.send(announcement(FRAME_BYTES_MAX))
    return _press(connections, b"[" * (64 * 1024), FRAME_BYTES_MAX - 1, seconds)


def _attackers(running: Broker, count: int) -> list[Connection]:
    return [Connection(running.port) for _ in range(count)]


def _press(
    connections: list[Connection], content: bytes, limit: int | None, seconds: float
) -> list[Connection]:
    """Send the content again and again, to whoever takes it, up to the limit of bytes for each."""
    limits = {each.socket: limit for each in connections}
    rest: dict[socket.socket, bytes] = {}
    for each in limits:
        each.setblocking(False)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        _, writable, _ = select.select([], list(limits), [], left)
        for each in writable:
            _send_some(each, limits, rest, content)
        if not limits:
            time.sleep(max(0, deadline - time.monotonic()))
    return connections


def _send_some(
    each: socket.socket,
    limits: dict[socket.socket, int | None],
    rest: dict[socket.socket, bytes],
    content: bytes,
) -> None:
    limit = limits[each]
    piece = (rest.get(each) or content)[:limit]
    try:
        sent = each.send(piece)
    except ConnectionError:  # It was cut off.
        del limits[each]
        return
    rest[each] = piece[sent:]
    if limit is not None:
        limits[each] = limit - sent
        if not limits[each]:
            del limits[each]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--attackers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10, help="how long an attack goes on")
    parser.add_argument("--budget", type=int, default=256 * MIB, help="queued.max.request.bytes")


if __name__ == "__main__":
    main(arguments(__doc__, _options))
