"""
Members of a group in a process of their own, which can be killed.  What they see is told on stdout, as JSON
lines.

    python -m tests.integration.group_member '{"client": "confluent", "server": "...", "group": "g", ...}'

C{assigned} has what a member owns now, and in which generation (-1: its client does not tell); C{record} is
something that it has read, and commits then.  A line on stdin, or its end, makes them leave.
"""

from __future__ import annotations

import asyncio
import json
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

HEARTBEAT_MS = 500


def tell(member: int, event: str, **more: Any) -> None:
    """Say what happened."""
    sys.stdout.write(json.dumps({"member": member, "event": event, **more}) + "\n")
    sys.stdout.flush()


def run_confluent(wish: dict[str, Any], stop: threading.Event) -> None:
    """librdkafka."""
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": wish["server"],
            "group.id": wish["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": wish["session_ms"],
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "log_level": 0,
            **wish.get("settings", {}),
        }
    )

    consumer.subscribe([wish["topic"]])
    last: list[int] | None = None
    while not stop.is_set():
        message = consumer.poll(0.05)
        owned = sorted(each.partition for each in consumer.assignment())
        if owned != last:
            last = owned
            metadata = consumer.consumer_group_metadata()
            (generation,) = struct.unpack_from("<i", metadata, len(b"CGMDv2:"))
            tell(0, "assigned", partitions=owned, generation=generation)
        if message is None or message.error() is not None:
            continue
        tell(0, "record", partition=message.partition(), offset=message.offset())
        try:
            consumer.commit(message, asynchronous=False)
        except KafkaException:
            continue  # The next owner reads it again.
    consumer.close()


async def run_aiokafka(wish: dict[str, Any], stop: threading.Event) -> None:
    """As many members as are wished for, in one loop."""
    members = (_run_aiokafka(number, wish, stop) for number in range(wish.get("members", 1)))
    await asyncio.gather(*members)


async def _run_aiokafka(number: int, wish: dict[str, Any], stop: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            pass

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            owned = sorted(each.partition for each in assigned)
            tell(number, "assigned", partitions=owned, generation=consumer._coordinator.generation)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=wish["server"],
        group_id=wish["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=wish["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        retry_backoff_ms=200,
    )
    await consumer.start()
    consumer.subscribe([wish["topic"]], listener=Listener())
    while not stop.is_set():
        try:
            found = await consumer.getmany(timeout_ms=100)
            generation = consumer._coordinator.generation
            for place, records in found.items():
                for each in records:
                    at = {"partition": place.partition, "offset": each.offset}
                    tell(number, "record", generation=generation, **at)
            if found:
                await consumer.commit({place: records[-1].offset + 1 for place, records in found.items()})
        except KafkaError:
            await asyncio.sleep(0.1)
    await consumer.stop()


def run_kafka_python(wish: dict[str, Any], stop: threading.Event) -> None:
    """kafka-python."""
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        wish["topic"],
        bootstrap_servers=wish["server"],
        group_id=wish["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=wish["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    last: list[int] | None = None
    while not stop.is_set():
        found = consumer.poll(50)
        owned = sorted(each.partition for each in consumer.assignment())
        if owned != last:
            last = owned
            tell(0, "assigned", partitions=owned, generation=consumer._coordinator._generation.generation_id)
        for place, records in found.items():
            for each in records:
                tell(0, "record", partition=place.partition, offset=each.offset)
        if found:
            with suppress(KafkaError):
                consumer.commit()
    consumer.close()


ASSIGNED = re.compile(r"rebalanced \(.*\): (?P<what>assigned|revoked)(?P<places>.*)")
PARTITION = re.compile(r"\[(\d+)\]")


def run_kcat(wish: dict[str, Any], stop: threading.Event) -> None:
    """kcat, which tells of rebalances on stderr, and commits by itself."""
    settings = {
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
        "session.timeout.ms": wish["session_ms"],
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }
    options = [option for name, value in settings.items() for option in ("-X", f"{name}={value}")]
    process = subprocess.Popen(
        ["kcat", "-b", wish["server"], *options, "-u", "-f", "%p %o\\n", "-G", wish["group"], wish["topic"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for target in (_tell_records, _tell_rebalances):
        threading.Thread(target=target, args=(process,), daemon=True).start()
    stop.wait()
    process.terminate()
    process.wait()


def _tell_records(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        partition, offset = line.split()
        tell(0, "record", partition=int(partition), offset=int(offset))


def _tell_rebalances(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        sys.stderr.write(line)
        match = ASSIGNED.search(line)
        if match:
            owned = PARTITION.findall(match["places"]) if match["what"] == "assigned" else []
            tell(0, "assigned", partitions=sorted(map(int, owned)), generation=-1)


def main() -> None:
    """Run until told to leave."""
    wish = json.loads(sys.argv[1])
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    if wish["client"] == "aiokafka":
        asyncio.run(run_aiokafka(wish, stop))
    else:
        runners = {"confluent": run_confluent, "kafka-python": run_kafka_python, "kcat": run_kcat}
        runners[wish["client"]](wish, stop)


if __name__ == "__main__":
    main()
