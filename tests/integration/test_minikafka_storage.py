"""A data directory of MiniKafka's under a real broker, and the tool that converts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.daemon import PATIENCE_SECONDS, ROOT, Daemon, environment
from tests.integration.kafka_clients import Confluent, KafkaPython, Message
from tests.unit.storage.minikafka.byhand import read_records, write_record

KAFKA = "--listen=kafka=tcp:0:interface=127.0.0.1"
ORDERS = [(each, 1_600_000_000_000 + each, b"key %d" % each, b"order %d" % each) for each in range(2000)]


COMMITS = [(0, 1, b"kitchen:orders:0", b"5"), (1, 2, b"kitchen:orders:0", b"1998")]


def write_directory(root: Path) -> None:
    """What MiniKafka would leave: two partitions, and a group that has read a part of the first."""
    for name, content in (
        ("orders/0/0.log", ORDERS[:1500]),
        ("orders/0/1500.log", ORDERS[1500:]),
        ("orders/1/0.log", ORDERS[:3]),
        ("__consumer_offsets/0/0.log", []),
        ("__consumer_offsets/3/0.log", COMMITS),
    ):
        path = root / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(write_record(*each) for each in content))


def committed(daemon: Daemon) -> Any:
    with daemon.client() as client:
        answer = client.call("OffsetFetch", topic="orders", partition=0, group_id="kitchen")
    return answer["OffsetFetch"]["offset"]


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rustlog", *arguments]
    environ = {**os.environ, **environment()}
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def test_served_and_appended_to(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """Real clients read what was there and append to it; a few lines of struct read all of it afterwards."""
    write_directory(tmp_path / "data")
    daemon = make_daemon(KAFKA, "--storage=minikafka").start()
    server = f"127.0.0.1:{daemon.ports[1]}"
    with daemon.client() as client:
        assert client.read_all("orders", 0) == {offset: payload for offset, _, _, payload in ORDERS}
    found = KafkaPython(server).consume("orders", 2000)
    assert [(each.offset, each.key, each.value) for each in found] == [(o, k, p) for o, _, k, p in ORDERS]
    assert committed(daemon) == 1998
    messages = [Message(b"new %d" % each, b"k") for each in range(100)]
    offsets = Confluent(server).produce("orders", messages, compression="zstd", idempotent=True)
    assert offsets == list(range(2000, 2100))
    daemon.stop()
    logs = tmp_path / "data" / "logs"
    stored = read_records((logs / "orders/0/1500.log").read_bytes())
    assert stored[:500] == ORDERS[1500:]
    assert [(each[0], each[2], each[3]) for each in stored[500:]] == [
        (offset, each.key, each.value) for offset, each in zip(offsets, messages, strict=True)
    ]
    assert (logs / "orders/0/0.log").read_bytes() == b"".join(write_record(*each) for each in ORDERS[:1500])


def test_converted(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """The tool makes a directory of it that the default store serves: records, offsets, and groups."""
    source, target = tmp_path / "minikafka", tmp_path / "data"
    write_directory(source)
    refused = make_daemon(f"--data-dir={source}").launch()
    assert refused.wait() != 0
    assert f"rustlog log convert {source} NEW-DIRECTORY --from=minikafka --to=segments" in refused.log
    command = ("log", "convert", str(source), str(target), "--from=minikafka", "--to=segments")
    first = tool(*command)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == "2 topics, 6 partitions, 2005 records: converted and verified\n"
    again = json.loads(tool(*command, "--json").stdout)
    assert (again["finished_before"], again["records"]) == (True, 2005)
    assert "2005 records" in tool("log", "verify", str(target)).stdout
    daemon = make_daemon(KAFKA).start()
    with daemon.client() as client:
        assert client.read_all("orders", 0) == {offset: payload for offset, _, _, payload in ORDERS}
    assert committed(daemon) == 1998
    daemon.stop()


def test_looked_into(tmp_path: Path) -> None:
    """The tool verifies and dumps a directory that only MiniKafka has ever seen, as it is."""
    write_directory(tmp_path)
    verified = tool("log", "verify", str(tmp_path))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    assert verified.stdout.endswith(f"2005 records, {size / 1024:.1f} KiB: no damage\n"), verified
    dumped = tool("log", "dump", str(tmp_path), "orders-1", "--records", "--json").stdout.splitlines()
    values = [json.loads(line)["value"] for line in dumped[1::2]]
    assert values == ["order 0", "order 1", "order 2"]
    path = tmp_path / "logs" / "orders" / "1" / "0.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    target = str(tmp_path.with_name("new"))
    damaged = tool("log", "convert", str(tmp_path), target, "--from=minikafka", "--to=segments")
    assert damaged.returncode == 1
    assert damaged.stderr.startswith("rustlog: ")
    assert "is damaged at offset" in damaged.stderr
    assert sorted(os.listdir(tmp_path)) == ["LOCK", "logs"]
