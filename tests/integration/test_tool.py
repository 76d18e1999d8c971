"""The console tool and the clients against a real broker, over real sockets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rustlog.client.blocking import connect
from rustlog.client.errors import ConnectionFailed, ConnectionLost
from rustlog.client.retrying import ClientSettings
from tests.integration.daemon import PATIENCE_SECONDS, Daemon, environment, every_now_and_then

MakeDaemon = Callable[..., Daemon]


@pytest.fixture
def broker(make_daemon: MakeDaemon) -> Daemon:
    """A broker that keeps its records in files."""
    return make_daemon("--storage=segments").start()


def tool(daemon: Daemon, *arguments: str) -> list[str]:
    """A command line of the tool."""
    return [sys.executable, "-m", "rustlog", *arguments]


def variables(daemon: Daemon) -> dict[str, str]:
    return {**environment(), "RUSTLOG_BOOTSTRAP": f"127.0.0.1:{daemon.port}"}


def run(
    daemon: Daemon, *arguments: str, stdin: bytes = b"", status: int = 0
) -> subprocess.CompletedProcess[bytes]:
    """Run a command that ends with a status."""
    done = subprocess.run(
        tool(daemon, *arguments),
        cwd=daemon.directory,
        env=variables(daemon),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def start(daemon: Daemon, *arguments: str) -> subprocess.Popen[bytes]:
    """Begin to run a command."""
    return subprocess.Popen(
        tool(daemon, *arguments),
        cwd=daemon.directory,
        env=variables(daemon),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read_line(stream: object) -> bytes:
    """A line, or an error if none comes."""
    lines: list[bytes] = []
    thread = threading.Thread(target=lambda: lines.append(stream.readline()), daemon=True)  # type: ignore[attr-defined]
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert lines, "nothing was printed"
    return lines[0]


# -- the tool --


def test_pipeline(broker: Daemon) -> None:
    """What is piped into produce now comes out of consume at once; Ctrl-C ends it without a word."""
    run(broker, "topic", "create", "orders")
    consumer = start(broker, "consume", "orders", "--follow", "--group", "kitchen")
    producer = start(broker, "produce", "orders")
    assert producer.stdin is not None
    for line in (b"one tea\n", b"\xff\x00\n"):
        producer.stdin.write(line)
        producer.stdin.flush()
        assert read_line(consumer.stdout) == line
    out, err = producer.communicate(timeout=PATIENCE_SECONDS)
    assert (out, err, producer.returncode) == (b"2 records in orders-0 at offsets 0 to 1\n", b"", 0)
    for _ in every_now_and_then("the group has committed"):
        described = json.loads(run(broker, "group", "describe", "kitchen", "--json").stdout)
        if described["offsets"][0]["lag"] == 0:
            break
    consumer.send_signal(signal.SIGINT)
    out, err = consumer.communicate(timeout=PATIENCE_SECONDS)
    assert (out, err, consumer.returncode) == (b"", b"", 130)


def test_nobody_reads(broker: Daemon) -> None:
    """A broken pipe is quiet."""
    run(broker, "topic", "create", "numbers")
    run(broker, "produce", "numbers", stdin=b"".join(b"%d\n" % each for each in range(100_000)))
    command = f"{' '.join(tool(broker, 'consume', 'numbers'))} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        env=variables(broker),
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"0\n141\n", b"")


def test_bytes(broker: Daemon, tmp_path: Path) -> None:
    """Megabytes of any bytes come back as they were."""
    content = os.urandom(3_000_000)
    (tmp_path / "blob").write_bytes(content)
    run(broker, "topic", "create", "blobs")
    run(broker, "produce", "blobs", "--whole", "blob")
    assert run(broker, "consume", "blobs", "--delimiter", "").stdout == content


def test_reset(broker: Daemon) -> None:
    """After a reset a group reads again."""
    run(broker, "topic", "create", "orders", "-p", "2")
    run(broker, "produce", "orders", stdin=b"1\n2\n3\n4\n")
    assert len(run(broker, "consume", "orders", "-gkitchen").stdout.split()) == 4
    assert run(broker, "consume", "orders", "-gkitchen").stdout == b""
    run(broker, "group", "reset-offsets", "kitchen", "--all-topics", "--shift-by=-1", "--execute")
    assert sorted(run(broker, "consume", "orders", "-gkitchen").stdout.split()) == [b"3", b"4"]


def test_no_broker(broker: Daemon) -> None:
    """One line says what to do, and the status is one of its own."""
    broker.stop()
    done = run(broker, "topic", "list", status=3)
    assert done.stderr.count(b"\n") == 1
    assert b"Connection refused; start a broker with 'twistd -n rustlog'" in done.stderr


def test_not_a_broker(make_daemon: MakeDaemon) -> None:
    """Who answers with something else is named as such."""
    echo = make_daemon(listen="echo=tcp:0:interface=127.0.0.1").start()
    done = run(echo, "topic", "list", status=1)
    assert b"is that port the one of the broker's RustLog protocol?" in done.stderr


def test_unix_socket(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    """A socket in the file system is as good as a port."""
    daemon = make_daemon(listen=f"rustlog=unix:{tmp_path / 'socket'}").start()
    assert b"answered in" in run(daemon, "ping", "-b", f"unix:{tmp_path / 'socket'}").stdout


def test_verify(broker: Daemon) -> None:
    """Files are verified while they are being written, after a kill, and when they are damaged."""
    run(broker, "topic", "create", "orders", "--set", "segment.bytes=100000")
    stop = threading.Event()

    def write() -> None:
        with connect(f"127.0.0.1:{broker.port}") as client:
            while not stop.is_set():
                client.produce("orders", [bytes(1000)] * 10)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(3):
            verdict = json.loads(run(broker, "log", "verify", "data", "--json").stdout)
            assert verdict["damaged"] is False
    finally:
        stop.set()
        writing.join()
    broker.kill()
    verdict = json.loads(run(broker, "log", "verify", "data", "--json").stdout)
    (orders,) = (each for each in verdict["partitions"] if each["topic"] == "orders")
    assert orders["records"] == orders["next_offset"] > 0
    assert orders["segments"] > 1
    lines = run(broker, "log", "dump", "data", "orders", "--json").stdout.splitlines()
    assert sum(json.loads(line)["records"] for line in lines) == orders["records"]
    log = broker.directory / "data" / "logs" / "orders" / "0" / "0.log"
    content = bytearray(log.read_bytes())
    content[500] ^= 1
    log.write_bytes(content)
    done = run(broker, "log", "verify", "data", status=1)
    assert b"damaged: data/logs/orders/0/0.log at 0: the checksum does not match (offset 0)" in done.stdout
    assert b"0.log at 0" in run(broker, "log", "dump", "data", "orders-0", status=1).stderr
    assert b", orders\n" in run(broker, "log", "dump", "data", "nope", status=1).stderr
    assert b"there is no directory nowhere" in run(broker, "log", "verify", "nowhere", status=1).stderr
    assert b"is not a data directory" in run(broker, "log", "verify", ".", status=1).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(broker: Daemon, shell: str, tmp_path: Path) -> None:
    """The scripts complete commands, options, choices and names of topics."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    run(broker, "topic", "create", "orders")
    program = tmp_path / "rustlog"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rustlog "$@"\n')
    program.chmod(0o755)
    (tmp_path / "completion").write_bytes(run(broker, "completion", shell).stdout)
    for line, expected in (
        ("rustlog to", "topic"),
        ("rustlog group re", "reset-offsets"),
        ("rustlog consume --offset-r", "--offset-reset"),
        ("rustlog consume --offset-reset ear", "earliest"),
        ("rustlog topic describe ord", "orders"),
        ("rustlog completion z", "zsh"),
    ):
        found = _complete(shell, line, tmp_path, variables(broker))
        # In zsh it is not the script that drops what does not fit.
        assert expected in found if shell == "zsh" else found == [expected], line


def _complete(shell: str, line: str, directory: Path, variables: dict[str, str]) -> list[str]:
    call = f"COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; _rustlog"
    scripts = {
        "bash": f'source ./completion; {call}; printf "%s\\n" "${{COMPREPLY[@]}}"',
        "fish": f"source ./completion; complete -C '{line}' | cut -f 1",
        "zsh": (
            "autoload -U compinit && compinit -u -D; source ./completion; "
            f"emulate -L sh; setopt kshglob noshglob braceexpand ksharrays; {call}; "
            'print -l -- "${COMPREPLY[@]}"'
        ),
    }
    done = subprocess.run(
        [shell, "-c", scripts[shell]],
        cwd=directory,
        env={**variables, "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.stdout.split()


# -- the clients --


@pytest.mark.parametrize("module", ["rustlog.client.blocking", "rustlog.cli.main"])
def test_without_twisted(module: str) -> None:
    """Scripts, and the tool, do without all of Twisted."""
    program = f"import sys, {module}; print([name for name in sys.modules if name.startswith('twisted')])"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_restarts(broker: Daemon) -> None:
    """A consumer survives the broker being killed again and again, and misses nothing."""
    listen = f"--listen=rustlog=tcp:{broker.port}:interface=127.0.0.1"
    broker._command[-2:] = [listen, "--storage=segments"]  # The same port each time.
    client = connect(f"127.0.0.1:{broker.port}")
    client.create_topic("orders")
    consumer = client.consume("orders", start=0)
    for life in range(3):
        values = [b"%d/%d" % (life, number) for number in range(10)]
        client.produce("orders", values)
        assert [next(consumer).value for _ in values] == values
        broker.kill()
        broker.start()
    client.close()


def test_lost_answer(broker: Daemon) -> None:
    """When the broker is killed, one hears whether a request may have been done."""
    settings = ClientSettings(retry_seconds=0)
    with connect(f"127.0.0.1:{broker.port}", settings) as client:
        client.create_topic("orders")
        broker.signal(signal.SIGSTOP)  # It hears, and does not answer.
        killer = threading.Timer(0.3, broker.kill)
        killer.start()
        with pytest.raises(ConnectionLost):
            client.produce("orders", [b"one"])
        killer.join()
        with pytest.raises(ConnectionFailed):
            client.produce("orders", [b"two"])


TWISTED = """
import sys
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import react
from rustlog.client import Consumer, Subscription, connect

async def main(reactor):
    client = await connect(sys.argv[1])
    seen = []

    def process(record):
        seen.append(record.value)
        print(record.value.decode(), flush=True)
        if record.value == b"end":
            consumer.stop()

    consumer = Consumer(client, process, Subscription(topic="orders", group_id="kitchen"))
    await consumer.run()
    print([await client.committed("kitchen", "orders", each) for each in (0, 1)])
    await client.close()

react(lambda reactor: ensureDeferred(main(reactor)))
"""


def test_twisted_consumer(broker: Daemon) -> None:
    """The at-least-once loop under a real reactor, across a restart of the broker."""
    address = f"127.0.0.1:{broker.port}"
    broker._command[-2:] = [f"--listen=rustlog=tcp:{broker.port}:interface=127.0.0.1", "--storage=segments"]
    with connect(address) as client:
        client.create_topic("orders", 2)
        client.produce("orders", [b"one"], 0)
        consumer = subprocess.Popen(
            [sys.executable, "-c", TWISTED, address], env=environment(), stdout=subprocess.PIPE, text=True
        )
        assert consumer.stdout is not None
        assert read_line(consumer.stdout) == "one\n"  # type: ignore[comparison-overlap]
        broker.stop()
        broker.start()
        client.produce("orders", [b"two"], 1)
        assert read_line(consumer.stdout) == "two\n"  # type: ignore[comparison-overlap]
        client.produce("orders", [b"end"], 1)
        out, _ = consumer.communicate(timeout=PATIENCE_SECONDS)
        assert consumer.returncode == 0
        assert out.splitlines()[-1].endswith(", 2]")
