"""Offsets of groups against a real broker: what was acknowledged is there, however the process ends."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon import Client, Daemon, every_now_and_then

KILLS = 20
COMMITTERS = 3
ORDERS = {"topic": "orders", "partition": 0}


@pytest.fixture(params=["topic", "file"])
def offsets(request: pytest.FixtureRequest) -> str:
    """Every offset store that lasts."""
    return str(request.param)


def committed(client: Client, group: str) -> Any:
    return client.call("OffsetFetch", **ORDERS, group_id=group)["OffsetFetch"]["offset"]


class Committer(threading.Thread):
    """
    A consumer that commits as fast as it is answered, until the broker is gone.

    @ivar sent: the last offset that it has sent.
    @ivar acknowledged: the last one that was acknowledged.
    """

    def __init__(self, daemon: Daemon, group: str, start: int) -> None:
        super().__init__(daemon=True)
        self._daemon_process = daemon
        self.group = group
        self.sent = self.acknowledged = start

    def run(self) -> None:
        try:
            with self._daemon_process.client() as client:
                while True:
                    self.sent += 1
                    answer = client.call("OffsetCommit", **ORDERS, group_id=self.group, offset=self.sent)
                    assert answer == {"OffsetCommit": {"success": True}}
                    self.acknowledged = self.sent
        except (EOFError, OSError):
            return


def test_kill_under_commits(make_daemon: Callable[..., Daemon], offsets: str) -> None:
    """However often the process is killed, each group is at its last acknowledged commit, or the next one."""
    chance = random.Random(offsets)
    daemon = make_daemon(f"--offsets={offsets}").start()
    with daemon.client() as client:
        client.create("orders")
    places = dict.fromkeys((f"group:{number}" for number in range(COMMITTERS)), 0)
    acknowledged = 0
    for _ in range(KILLS):
        committers = [Committer(daemon, group, place) for group, place in places.items()]
        for each in committers:
            each.start()
        time.sleep(chance.uniform(0.01, 0.2))
        daemon.kill()
        for each in committers:
            each.join()
        daemon.start()
        with daemon.client() as client:
            for each in committers:
                place = committed(client, each.group) or 0
                assert each.acknowledged <= place <= each.sent, f"{each.group}\n{daemon.describe()}"
                acknowledged += each.acknowledged - places[each.group]
                places[each.group] = place
    assert acknowledged > KILLS, "hardly a commit was made"


def test_restart(make_daemon: Callable[..., Daemon], offsets: str) -> None:
    """An orderly stop keeps the last commit, too."""
    daemon = make_daemon(f"--offsets={offsets}").start()
    with daemon.client() as client:
        client.create("orders")
        for offset in (5, 9, 2):
            client.call("OffsetCommit", **ORDERS, group_id="g", offset=offset)
    daemon.stop()
    daemon.start()
    with daemon.client() as client:
        assert committed(client, "g") == 2
        assert committed(client, "other") is None


def test_topic_is_the_default(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """Offsets are in the log, whose topic clients can read, and not write to."""
    daemon = make_daemon().start()
    with daemon.client() as client:
        client.create("orders")
        client.call("OffsetCommit", **ORDERS, group_id="my:group", offset=7)
        own = {"topic": "__consumer_offsets", "partition": 0}
        (record,) = client.call("Fetch", **own, offset=0, max_bytes=1000)["Fetch"]["records"]
        assert bytes(record["payload"]) == b"7"
        answer = client.call("Produce", **own, records=[[1]])
        assert answer["Error"]["message"] == "topic is internal: __consumer_offsets"
    assert (tmp_path / "data" / "logs" / "__consumer_offsets" / "0" / "0.log").exists()


def test_at_least_once(make_daemon: Callable[..., Daemon], offsets: str) -> None:
    """A consumer that commits after processing misses nothing, though the broker is killed now and then."""
    daemon = make_daemon(f"--offsets={offsets}").start()
    with daemon.client() as client:
        client.create("orders")
        client.call("Produce", **ORDERS, records=[[number] for number in range(60)])
    processed: list[int] = []
    while not processed or processed[-1] < 59:
        with daemon.client() as client:
            for _ in range(4):
                answer = client.call("Fetch", **ORDERS, offset=0, max_bytes=4, group_id="g")["Fetch"]
                processed += [each["offset"] for each in answer["records"]]
                client.send("OffsetCommit", **ORDERS, group_id="g", offset=answer["next_offset"])
                if len(processed) % 3:
                    assert client.receive() == {"OffsetCommit": {"success": True}}
                else:
                    break  # Nobody knows whether that one was still heard.
        daemon.kill()
        daemon.start()
    assert sorted(set(processed)) == list(range(60))


def test_stale_commit(make_daemon: Callable[..., Daemon], offsets: str) -> None:
    """When retention has removed what a group would read next, it is told so, and nothing is reset."""
    daemon = make_daemon(f"--offsets={offsets}", "--set=retention.check.interval.ms=50").start()
    limits = {"retention.bytes": "2000", "segment.bytes": "1000"}
    with daemon.client() as client:
        client.create("orders", 1, **limits)
        client.call("OffsetCommit", **ORDERS, group_id="old-group", offset=1)
        for _ in range(50):
            client.call("Produce", **ORDERS, records=[[1] * 200])
        fetch = {**ORDERS, "offset": 0, "max_bytes": 1000, "group_id": "old-group"}
        for _ in every_now_and_then("the stale commit is out of range", daemon.describe):
            answer = client.call("Fetch", **fetch)
            if "Error" in answer:
                break
        assert answer["Error"]["message"].startswith("offset out of range: 1 is not within ")
        assert committed(client, "old-group") == 1
    daemon.kill()
    daemon.start()
    with daemon.client() as client:
        assert client.call("Fetch", **fetch)["Error"]["message"].startswith("offset out of range: 1 is ")
        client.call("OffsetCommit", **ORDERS, group_id="old-group", offset=49)
        assert client.call("Fetch", **fetch)["Fetch"]["next_offset"] == 50
