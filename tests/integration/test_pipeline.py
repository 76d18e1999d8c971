"""
C{rustlog pipeline} with a real broker and a real Spark.

C{RUSTLOG_PIPELINE_RECORDS} says how many records are archived and replayed; 5,000,000 take some minutes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import pyarrow.dataset as ds
from attrs import frozen
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from rustlog.cli import jobs
from rustlog.cli.main import main
from rustlog.client.partitioning import partition_for
from rustlog.environment.console import Console
from rustlog.environment.pace import SystemPace
from rustlog.log.batch import split_batches
from rustlog.spark import pipeline, session
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.lag import hour_of
from tests.integration import spark_jobs
from tests.integration.daemon import PATIENCE_SECONDS, Daemon, environment
from tests.integration.pipeline_data import START_MS, Cluster, Seen, by_key

RECORDS = int(os.environ.get("RUSTLOG_PIPELINE_RECORDS", "100000"))
PARTITIONS = 4
KAFKA = "kafka=tcp:0:interface=127.0.0.1"


@frozen
class Place:
    """A broker, its files, and somewhere to write."""

    cluster: Cluster
    data: Path
    scratch: Path

    @property
    def settings(self) -> Any:
        return pipeline.client_settings(self.cluster.servers)

    @property
    def source(self) -> Any:
        return pipeline.broker(self.cluster.servers)

    def path(self, name: str) -> str:
        return str(self.scratch / name)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One broker for all tests here, with the topic C{orders}."""
    directory = tmp_path_factory.mktemp("broker")
    options = ("--sync=never", "--offsets=topic", "--set=segment.bytes=1048576", "--set=retention.ms=-1")
    with Daemon(directory, *options, listen=KAFKA) as daemon:
        cluster = Cluster(f"127.0.0.1:{daemon.port}")
        cluster.create("orders", PARTITIONS)
        cluster.fill("orders", RECORDS)
        yield Place(cluster, directory / "data", tmp_path_factory.mktemp("scratch"))


@pytest.fixture(scope="module")
def small(place: Place) -> dict[int, list[Seen]]:
    """The topic C{small}, and what is in it."""
    place.cluster.create("small", 3)
    place.cluster.fill("small", 6_000, first=7, hours=5, codec="lz4")
    return place.cluster.everything("small")


@frozen
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)


Tool = Callable[..., Outcome]


@pytest.fixture
def tool(place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Runs C{rustlog pipeline} here, with the Spark that there is."""
    monkeypatch.setattr(session, "open_session", lambda *_, **__: spark)
    monkeypatch.setattr(jobs._Job, "stop", lambda _: None)

    def run(*arguments: str) -> Outcome:
        out, err = BytesIO(), StringIO()
        variables = {"RUSTLOG_KAFKA": place.cluster.servers, "XDG_STATE_HOME": place.path("state")}
        console = Console(BytesIO(), out, err, variables, False, False, SystemPace())
        try:
            status = main(["pipeline", *arguments], console)
        except SystemExit as end:
            status = int(str(end.code))
        return Outcome(status, out.getvalue().decode(), err.getvalue())

    return run


class Process:
    """C{rustlog pipeline} in a process of its own, to be interrupted or killed."""

    def __init__(self, place: Place, *arguments: str) -> None:
        conf = [f"--conf={name}={value}" for name, value in spark_jobs.CONF.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rustlog", "pipeline", *arguments, "--master=local[2]", *conf],
            env={
                **environment(),
                "RUSTLOG_KAFKA": place.cluster.servers,
                "XDG_STATE_HOME": place.path("state"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait; it is fine if it ends before.  Spark takes its time to start, where others are at work."""
        deadline = time.monotonic() + 4 * PATIENCE_SECONDS
        while not is_so() and self._process.poll() is None:
            assert time.monotonic() < deadline, f"waited in vain until {what}"
            time.sleep(0.01)

    def kill(self) -> None:
        """The driver dies, at once; Java and the workers notice."""
        self._process.kill()
        self._process.communicate()

    def interrupt(self) -> tuple[int, str]:
        """What Ctrl-C does: all processes of the terminal hear of it."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self.end()

    def end(self) -> tuple[int, str]:
        _, err = self._process.communicate(timeout=4 * PATIENCE_SECONDS)
        return self._process.returncode, err


# -- archive and replay ----------------------------------------------------------------


def archived(path: str, topic: str) -> dict[int, list[int]]:
    """The offsets of each partition, as any reader of Parquet finds them."""
    table = ds.dataset(path, partitioning="hive").to_table(
        columns=["partition", "offset"], filter=ds.field("topic") == topic
    )
    found: dict[int, list[int]] = {}
    for partition, offset in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found.setdefault(partition, []).append(offset)
    return {partition: sorted(offsets) for partition, offsets in found.items()}


def check_complete(place: Place, path: str, topic: str = "orders") -> None:
    """Each record is in the archive once."""
    ends = place.cluster.ends(topic)
    assert archived(path, topic) == {partition: list(range(end)) for partition, end in ends.items() if end}


def test_archive_and_replay(place: Place, spark: SparkSession, tool: Tool) -> None:
    """What was archived and replayed is what was there, byte for byte, in its order."""
    target = place.path("archive")
    told = tool("archive", target, "--topic=orders", "--commit-bytes=4M", "--task-bytes=1M", "--json").json
    assert told["records"] == RECORDS
    assert told["commits"] > 1
    check_complete(place, target)
    rows = spark.read.parquet(target)
    assert rows.count() == RECORDS
    assert rows.select("topic").distinct().collect()[0][0] == "orders"
    replayed = tool("replay", target, "--topic=orders=again", "--json").json
    assert (replayed["records"], replayed["sent"]) == (RECORDS, RECORDS)
    assert place.cluster.digests("again") == place.cluster.digests("orders")


def test_it_goes_on(place: Place, tool: Tool) -> None:
    """Called again there is nothing to do; when there are more records, only those are done."""
    target, wanted = place.path("growing"), ("--topic=growing", "--json")
    place.cluster.create("growing", 2)
    place.cluster.fill("growing", 500)
    assert tool("archive", target, *wanted).json["records"] == 500
    assert tool("archive", target, *wanted).json["records"] == 0
    assert tool("replay", target, "--topic=growing=grown", "--json").json["sent"] == 500
    assert "everything is there" in tool("replay", target, "--topic=growing=grown").out
    place.cluster.fill("growing", 300, first=1000)
    assert tool("archive", target, *wanted).json["records"] == 300
    assert tool("replay", target, "--topic=growing=grown", "--codec=zstd", "--json").json["sent"] == 300
    assert place.cluster.digests("grown") == place.cluster.digests("growing")


def test_delta_from_files(place: Place, tool: Tool, small: dict[int, list[Seen]]) -> None:
    """Archived from the files of the broker, as a Delta table; and back, at a limited rate."""
    target = place.path("delta")
    wanted = ("--data-dir", str(place.data), "--topic=small", "--format=delta", "--task-bytes=64K", "--json")
    assert tool("archive", target, *wanted, "--commit-bytes=100K").json["commits"] > 1
    assert tool("archive", target, *wanted).json["records"] == 0
    table = DeltaTable(target)
    assert table.to_pyarrow_dataset().count_rows() == 6_000
    offsets = Counter(table.to_pyarrow_table(columns=["partition"])["partition"].to_pylist())
    assert offsets == {partition: len(records) for partition, records in small.items()}
    assert tool("replay", target, "--topic=small=delta-again", "--rate=3000", "--json").json["sent"] == 6_000
    assert place.cluster.everything("delta-again") == small


def test_archive_is_killed(place: Place) -> None:
    """Killed or interrupted at any moment, and called again, the archive has every record once."""
    target = Path(place.path("killed"))
    wanted = ("archive", str(target), "--topic=orders", "--task-bytes=128K", "--commit-bytes=512K")

    def commits() -> int:
        return len(list(target.glob("_rustlog/commits/*.json")))

    for number, is_so in enumerate(
        (
            lambda: any(target.glob("_rustlog/staging/*/*.parquet")),
            lambda: commits() >= 2,
            lambda: commits() >= 4,
        )
    ):
        process = Process(place, *wanted)
        process.wait_until(f"it is time to kill it, {number}", is_so)
        process.kill()
    process = Process(place, *wanted)
    process.wait_until("it has gone on", lambda: commits() >= 6)
    status, err = process.interrupt()
    assert status == 130, err
    assert re.fullmatch("rustlog: interrupted; .* call it again, and it goes on\n", err), err
    assert not any(target.glob("_rustlog/staging/*/*"))
    status, err = Process(place, *wanted).end()
    assert (status, err) == (0, "")
    check_complete(place, str(target))


def test_replay_is_killed(place: Place, spark: SparkSession, tool: Tool) -> None:
    """Killed while it sends, and called again, a replay sends every record once, in order."""
    target = place.path("replayed")
    tool("archive", target, "--topic=orders")
    wanted = ("replay", target, "--topic=orders=killed", f"--rate={max(20_000, RECORDS // 10)}")
    process = Process(place, *wanted)
    process.wait_until("something is sent", lambda: sum(place.cluster.ends("killed").values()) > 0)
    process.kill()
    sent = sum(place.cluster.ends("killed").values())
    assert 0 < sent < RECORDS
    told = tool("replay", target, "--topic=orders=killed", "--json").json
    assert 0 < told["sent"] <= RECORDS - sent
    assert place.cluster.digests("killed") == place.cluster.digests("orders")


def test_replay_refuses(place: Place, tool: Tool, small: dict[int, list[Seen]]) -> None:
    """A topic with records is not written to, unless it is said."""
    target = place.path("refused")
    tool("archive", target, "--topic=small")
    refused = tool("replay", target)
    assert (refused.status, refused.out) == (1, "")
    assert refused.err == (
        "rustlog: small is not empty; say --append if the records are to come behind those that it has\n"
    )
    assert tool("replay", target, "--topic=nothing").err.startswith("rustlog: there is no topic nothing in")
    assert tool("replay", place.path("no")).err.endswith("there is no _rustlog/archive.json in it\n")


def test_plans(place: Place, tool: Tool, small: dict[int, list[Seen]]) -> None:
    """A plan tells what would be done, and does nothing."""
    target = place.path("planned")
    planned = tool("archive", target, "--topic=small", "--plan", "--json").json
    assert [(each["partition"], each["from"], each["to"]) for each in planned["ranges"]] == [
        (partition, 0, len(records)) for partition, records in small.items()
    ]
    assert not Path(target).exists()
    for command in (
        ("report", "--topic=small"),
        ("rekey", "small", "planned"),
        ("compact", "small", "--to=planned"),
        ("audit", str(place.data)),
    ):
        done = tool(*command, "--plan")
        assert (done.status, done.err) == (0, "")
        assert "task" in done.out
    assert "planned" not in place.cluster._consumer("x").list_topics().topics


# -- audit -----------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A data directory that nobody uses any more, to be damaged."""
    with Daemon(tmp_path, "--set=segment.bytes=200000", "--set=retention.ms=-1", listen=KAFKA) as daemon:
        cluster = Cluster(f"127.0.0.1:{daemon.port}")
        cluster.create("orders", PARTITIONS)
        cluster.fill("orders", 30_000)
        daemon.stop()
    return tmp_path / "data"


def segments(copy: Path, topic: str, partition: int) -> list[Path]:
    return sorted((copy / "logs" / topic / str(partition)).glob("*.log"), key=lambda path: int(path.stem))


def test_audit_is_clean(place: Place, tool: Tool) -> None:
    """A directory in which a broker works is sound, and everything in it is counted."""
    found = tool("audit", str(place.data), "--topic=orders", "--json").json
    assert not found["damaged"]
    ends = place.cluster.ends("orders")
    assert {each["partition"]: each["end"] for each in found["partitions"]} == ends
    assert sum(each["records"] for each in found["partitions"]) == sum(ends.values())


def test_audit_finds_damage(copy: Path, tool: Tool) -> None:
    """A flipped byte, a missing segment, a gap and a wrong index are each found, where they are."""
    assert tool("audit", str(copy)).status == 0
    flipped = segments(copy, "orders", 0)[0]
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    missing = segments(copy, "orders", 1)[1]
    missing.unlink()
    gap = segments(copy, "orders", 2)[0]
    batches = list(split_batches(gap.read_bytes()))
    gap.write_bytes(b"".join(bytes(each.buffer) for number, each in enumerate(batches) if number != 1))
    first = segments(copy, "orders", 3)[0]
    first.unlink()
    index = segments(copy, "orders", 3)[1].with_suffix(".timeindex")
    index.write_bytes(b"\x01" + index.read_bytes()[1:])
    done = tool("audit", str(copy), "--topic=orders", "--json")
    assert done.status == 1
    found = json.loads(done.out)
    assert found["damaged"]
    logs = copy / "logs" / "orders"
    problems = {Path(each["path"]).relative_to(logs).as_posix(): each for each in found["problems"]}
    assert set(problems) == {
        f"0/{flipped.name}",
        f"1/{segments(copy, 'orders', 1)[1].name}",
        f"2/{gap.name}",
        "3",
        f"3/{index.name}",
    }
    assert "checksum does not match" in problems[f"0/{flipped.name}"]["message"]
    assert f"ends at {missing.stem}" in problems[f"1/{segments(copy, 'orders', 1)[1].name}"]["message"]
    expected = f"offset {batches[2].base_offset} stands where {batches[1].base_offset} should"
    assert expected in problems[f"2/{gap.name}"]["message"]
    assert "offsets 0 to" in problems["3"]["message"]
    assert "wrong place" in problems[f"3/{index.name}"]["message"]
    shown = tool("audit", str(copy))
    assert (shown.status, shown.out.splitlines()[-1].endswith("DAMAGED")) == (1, True)


def test_audit_can_not_run(tool: Tool, tmp_path: Path) -> None:
    """What is no data directory is no finding."""
    done = tool("audit", str(tmp_path / "nothing"))
    assert (done.status, done.out) == (2, "")
    assert tool("audit", str(tmp_path)).status == 2


def test_audit_minikafka(tool: Tool, tmp_path: Path) -> None:
    """MiniKafka's files are audited as well."""
    directory = tmp_path / "mini"
    directory.mkdir()
    with Daemon(directory, "--storage=minikafka", "--offsets=memory", listen=KAFKA) as daemon:
        cluster = Cluster(f"127.0.0.1:{daemon.port}")
        cluster.create("plain", 1)
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": cluster.servers})
        for number in range(50):
            producer.produce("plain", b"value %d" % number, b"key", partition=0)
        producer.flush(30)
        daemon.stop()
    found = tool("audit", str(directory / "data"), "--json").json
    assert [each["records"] for each in found["partitions"]] == [50]
    log = directory / "data" / "logs" / "plain" / "0" / "0.log"
    content = bytearray(log.read_bytes())
    content[-3] ^= 1
    log.write_bytes(content)
    assert tool("audit", str(directory / "data")).status == 1


# -- report ----------------------------------------------------------------------------


def test_report(place: Place, tool: Tool, small: dict[int, list[Seen]], tmp_path: Path) -> None:
    """Figures are those of a plain count; the lag is what a group has not done with."""
    place.cluster.commit("kitchen", "small", {0: 100, 1: 5, 2: 0})
    page = tmp_path / "report.html"
    found = tool("report", "--topic=small", f"--html={page}", "--json").json
    seen = [each for records in small.values() for each in records]
    records, size = Counter[int](), Counter[int]()
    for each in seen:
        records[hour_of(each.timestamp[1])] += 1
        size[hour_of(each.timestamp[1])] += len(each.key or b"") + len(each.value or b"")
    assert {each["hour_ms"]: each["records"] for each in found["hours"]} == records
    assert {each["hour_ms"]: each["bytes"] for each in found["hours"]} == size
    (total,) = found["topics"]
    assert total["records"] == 6_000
    assert total["tombstones"] == sum(each.value is None for each in seen)
    keys = len({each.key for each in seen if each.key is not None})
    assert abs(total["keys"] - keys) < keys * 0.1
    sizes = sorted(len(each.key or b"") + len(each.value or b"") for each in seen)
    assert abs(total["size_p50"] - sizes[3_000]) <= 2
    assert total["size_max"] == sizes[-1]
    lag = found["lags"][-1]
    assert (lag["group"], lag["lag"]) == ("kitchen", 6_000 - 105)
    assert page.read_text().count("<svg") == 5


def test_report_between(place: Place, tool: Tool, small: dict[int, list[Seen]]) -> None:
    """Of some time only, from files as from the broker."""
    since, until = hour_of(START_MS) + 2 * 3_600_000, hour_of(START_MS) + 4 * 3_600_000
    expected = sum(since <= each.timestamp[1] < until for records in small.values() for each in records)
    wanted = ("report", "--topic=small", f"--since={since}", f"--until={until}", "--json")
    for more in ((), ("--data-dir", str(place.data))):
        assert sum(each["records"] for each in tool(*wanted, *more).json["hours"]) == expected
    assert "HOUR" in tool("report", "--topic=small").out


# -- rekey and compact -----------------------------------------------------------------


def customer(value: bytes | None) -> bytes | None:
    return None if value is None else json.loads(value)["customer"].encode()


def test_rekey_by_expression(place: Place, tool: Tool, small: dict[int, list[Seen]]) -> None:
    """Records go where their new keys belong, each once, those of a partition in their order."""
    wanted = (
        "rekey", "small", "customers", "--partitions=5",
        "--key=get_json_object(cast(value as string), '$.customer')", "--json",
    )  # fmt: skip
    assert tool(*wanted).json["sent"] == 6_000
    found = place.cluster.everything("customers")
    assert len(found) == 5
    for partition, records in found.items():
        for each in records:
            assert each.key == customer(each.value)
            assert each.key is None or partition_for(each.key, 5) == partition
    original = {
        (each.value, each.timestamp, each.headers): (partition, each.offset)
        for partition, records in small.items()
        for each in records
        if each.value is not None
    }
    for records in found.values():
        reached: dict[tuple[bytes | None, int], int] = {}
        times: dict[bytes | None, int] = {}
        for each in records:
            if each.key is None:
                continue
            partition, offset = original.pop((each.value, each.timestamp, each.headers))
            assert reached.get((each.key, partition), -1) < offset
            reached[each.key, partition] = offset
            # Between partitions it is by time, as far as the clocks of the producers go: they differ by 2 s.
            assert each.timestamp[1] > times.get(each.key, 0) - 4_000 or each.timestamp[1] < START_MS
            times[each.key] = max(times.get(each.key, 0), each.timestamp[1])
    assert original == {}
    assert tool(*wanted).json["sent"] == 0


def test_rekey_keeps_keys(place: Place, tool: Tool, small: dict[int, list[Seen]]) -> None:
    """Without an expression, only the partitions are others: each key has its values in their order."""
    told = tool("rekey", "small", "wide", "--partitions=7", "--data-dir", str(place.data), "--json").json
    assert told["sent"] == 6_000
    found = place.cluster.everything("wide")
    before, after = by_key(small), by_key(found)
    # Records without a key are spread, and have no order.
    assert sorted(map(str, before.pop(None))) == sorted(map(str, after.pop(None)))
    assert after == before
    assert min(len(each) for each in found.values()) > 0


def test_rekey_is_killed(place: Place, tool: Tool) -> None:
    """Killed while it sends, and called again, it copies every record once."""
    wanted = ("rekey", "orders", "rekeyed", "--partitions=3")
    process = Process(place, *wanted)
    process.wait_until("something is sent", lambda: sum(place.cluster.ends("rekeyed").values()) > 0)
    process.kill()
    assert tool(*wanted, "--json").status == 0
    sent = place.cluster.everything("rekeyed")
    before, after = by_key(place.cluster.everything("orders")), by_key(sent)
    assert sorted(map(str, before.pop(None))) == sorted(map(str, after.pop(None)))
    assert after == before


def test_rekey_refuses(place: Place, tool: Tool, small: dict[int, list[Seen]]) -> None:
    """What makes no sense is one line."""
    wrong = tool("rekey", "small", "wrong", "--key=frobnicate(value)")
    assert (wrong.status, len(wrong.err.splitlines())) == (1, 1)
    assert "frobnicate" in wrong.err
    assert "is not empty" in tool("rekey", "small", "orders").err
    assert "into itself" in tool("rekey", "small", "small").err
    assert tool("rekey", "nothing", "x").err.startswith("rustlog: there is no topic nothing at")


def last_values(records: dict[int, list[Seen]]) -> dict[bytes, bytes]:
    """What compaction leaves: keys are in one partition each here."""
    found: dict[bytes, bytes | None] = {}
    for partition in records.values():
        for each in partition:
            if each.key is not None:
                found[each.key] = each.value
    return {key: value for key, value in found.items() if value is not None}


def test_compact_to_topic(place: Place, tool: Tool, small: dict[int, list[Seen]]) -> None:
    """Each key has its last value, in the same partition, in the order of the source; tombstones remove."""
    assert tool("compact", "small", "--to=last", "--json").json["sent"] == len(last_values(small))
    found = place.cluster.everything("last")
    assert {each.key: each.value for records in found.values() for each in records} == last_values(small)
    for partition, records in found.items():
        source = iter(small[partition])
        for each in records:
            assert any(
                (other.key, other.value, other.timestamp, other.headers)
                == (each.key, each.value, each.timestamp, each.headers)
                for other in source
            ), "not in the order of the source"
    assert "everything is there" in tool("compact", "small", "--to=last").out


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_compact_to_table(place: Place, tool: Tool, small: dict[int, list[Seen]], kind: str) -> None:
    """The same as a table, which is replaced only if that is said."""
    path = place.path(f"table-{kind}")
    wanted = ("compact", "small", f"--{kind}={path}")
    assert tool(*wanted, "--json").json["records"] == len(last_values(small))
    assert "is not empty" in tool(*wanted).err
    assert tool(*wanted, "--overwrite").status == 0
    table = DeltaTable(path).to_pyarrow_table() if kind == "delta" else ds.dataset(path).to_table()
    found = dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert found == last_values(small)
    assert len(table) == len(found)


# -- as functions ----------------------------------------------------------------------


def test_functions(place: Place, spark: SparkSession, small: dict[int, list[Seen]]) -> None:
    """Every job is a function, too."""
    cluster, source, to = place.cluster, place.source, place.settings
    target = place.path("by-function")
    assert pipeline.archive(spark, source, target, topics=["small"]).records == 6_000
    state = place.path("replay.json")
    sent = pipeline.replay(spark, target, to, state=state, topics={"small": "by-function"})
    assert sum(each.sent for each in sent) == 6_000
    assert cluster.everything("by-function") == small
    assert not pipeline.audit(spark, str(place.data), topics=["by-function"]).is_damaged
    files = pipeline.data_directory(str(place.data))
    assert pipeline.report(spark, files, topics=["small"]).totals[0].records == 6_000
    state = place.path("rekey.json")
    pipeline.rekey(spark, source, "small", to, "rekeyed-by-function", state=state, key="'all'", partitions=2)
    assert sorted(cluster.ends("rekeyed-by-function").values()) == [0, 6_000]
    state = place.path("compact.json")
    pipeline.compact(spark, source, "rekeyed-by-function", to, "one", state=state)
    assert sum(cluster.ends("one").values()) == 1
    assert pipeline.compact_to_table(spark, source, "small", place.path("table")).records
    with pytest.raises(JobFailed, match="of the kind parquet, not delta"):
        pipeline.archive(spark, source, target, kind="delta")


