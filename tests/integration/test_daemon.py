"""The life of the daemon: how it starts, what it says when it can not, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.daemon import (
    PATIENCE_SECONDS,
    Client,
    Daemon,
    command,
    environment,
    every_now_and_then,
)

RUNNERS = {"twistd": ["-n", "--pidfile="], "twist": ["--log-format=text"]}
EPHEMERAL = "--listen=rustlog=tcp:0:interface=127.0.0.1"


@pytest.fixture(params=list(RUNNERS))
def runner(request: pytest.FixtureRequest) -> str:
    """What runs the service, in the foreground."""
    return str(request.param)


# -- start and stop --------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_start_and_stop(make_daemon: Callable[..., Daemon], runner: str, number: int) -> None:
    """It says where it listens, does so, and ends well when it is asked to."""
    daemon = make_daemon("--storage=segments", runner=runner, before=RUNNERS[runner]).start()
    with daemon.client() as client:
        client.create("orders")
        daemon.signal(number)
        assert daemon.wait() == 0
        assert client.is_closed()
    assert re.search(r"INFO  ready: rustlog on 127\.0\.0\.1:\d+\n", daemon.log)
    assert re.search(r"INFO  stopping\n(.*\n)*.*INFO  stopped\n\Z", daemon.log)
    assert "Traceback" not in daemon.log


def test_second_signal(make_daemon: Callable[..., Daemon]) -> None:
    """While it waits for clients, a second signal makes it hurry, and still end well."""
    daemon = make_daemon("--storage=memory", listen="echo=tcp:0:interface=127.0.0.1").start()
    daemon.signal(signal.SIGTERM)
    daemon.wait_for_log("stopping")
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert "hurrying" in daemon.log
    assert daemon.log.endswith("INFO  stopped\n")


def test_stop_while_opening(make_daemon: Callable[..., Daemon]) -> None:
    """It can be stopped while a store is still being opened; nothing listens until then."""
    daemon = make_daemon("--storage=slow").launch()
    daemon.wait_for_log("opening the log store slow")
    daemon.signal(signal.SIGTERM)
    daemon.wait_for_log("stopping")
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert "ready" not in daemon.log


def test_several_listeners(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """One broker listens in many places, each with the name that it was given."""
    place = tmp_path / "socket"
    daemon = make_daemon("--storage=memory", f"--listen=local/rustlog=unix:{place}").start()
    assert f"local (rustlog) on unix:{place}" in daemon.log
    with daemon.client() as client:
        client.create("orders")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(place))
        assert "Produce" in Client(connection).call("Produce", topic="orders", partition=0, records=[[1]])


# -- the log -----------------------------------------------------------------------------


def test_json_lines(make_daemon: Callable[..., Daemon], runner: str) -> None:
    """With an option, each line of the log is a JSON object."""
    daemon = make_daemon(
        "--storage=memory", "--log-format=json", runner=runner, before=RUNNERS[runner]
    ).start()
    daemon.stop()
    lines = [json.loads(line) for line in daemon.log.splitlines()]
    assert {"time", "level", "namespace", "message"} <= set(lines[0])
    assert lines[-1]["message"] == "stopped"


def test_debug(make_daemon: Callable[..., Daemon]) -> None:
    """For those who debug, every request is a line."""
    daemon = make_daemon("--storage=memory", "--log-level=debug").start()
    with daemon.client() as client:
        client.create("orders")
        client.call("Produce", topic="orders", partition=0, records=[[1]])
    daemon.wait_for_log(r"DEBUG rustlog Produce 'orders' 0: 1 records, .* '?ok\b")


def test_log_file(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """C{twistd --logfile} is honoured, in our format, and SIGUSR1 begins a new file."""
    log, old = tmp_path / "broker.log", tmp_path / "broker.log.1"
    before = ["-n", "--pidfile=", f"--logfile={log}"]
    daemon = make_daemon("--storage=memory", "--log-format=json", before=before).launch()
    for _ in every_now_and_then("it is ready", daemon.describe):
        if log.exists() and '"message": "ready: ' in log.read_text():
            break
    daemon.signal(signal.SIGUSR1)
    for _ in every_now_and_then("the log is rotated", daemon.describe):
        if old.exists():
            break
    daemon.stop()
    assert json.loads(old.read_text().splitlines()[-1])["message"].startswith("ready: ")
    assert json.loads(log.read_text().splitlines()[-1])["message"] == "stopped"
    assert daemon.log == ""


# -- starts that fail --------------------------------------------------------------------


def run(directory: Path, runner: str, before: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run to the end."""
    return subprocess.run(
        command(runner, *before, "rustlog", *options),
        cwd=directory,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--storage=segmets"], r"no log store is called 'segmets'; did you mean segments\?; installed: .*"),
        (["--offsets=tape"], r"no offset store is called 'tape'; installed: file, memory, topic"),
        (["--listen=gopher=tcp:0"], r"no wire protocol is called 'gopher'; installed: .*rustlog"),
        (["--listen=rustlog=pigeon:0"], r"listen: 'pigeon:0' is not a usable endpoint: .*"),
        (["--set=retention.mss=1"], r"unknown setting 'retention.mss'; did you mean retention.ms\?"),
        (["--set=retention.ms=x"], r"invalid setting retention.ms: 'x' is not a whole number"),
        (["--sync=maybe"], r"sync: 'maybe' is neither always, never nor a number of milliseconds"),
        (["--config=nowhere.toml"], r"cannot read the configuration file nowhere.toml: No such file.*"),
        (["--bogus"], r"option --bogus not recognized"),
        (["bogus"], r"unexpected argument 'bogus'"),
    ],
)
def test_wrong_option(tmp_path: Path, runner: str, options: list[str], line: str) -> None:
    """A wrong option is one line and status 1, before anything is opened."""
    done = run(tmp_path, runner, RUNNERS[runner], *options)
    assert re.fullmatch(rf"rustlog: {line} \(see --help\)\n", done.stderr), done.stderr
    assert (done.returncode, done.stdout) == (1, "")
    assert list(tmp_path.iterdir()) == []


FAILING_STARTS = [
    (["--storage=refusing"], r"the refusing store never opens"),
    (["--storage=refusing-later"], r"the refusing store never opens"),
    (["--data-dir=file/data", "--storage=segments"], r".*file.*[Nn]ot a directory.*"),
    (["--storage=memory", "--listen=rustlog=tcp:99999"], r"cannot listen on tcp:99999: .*65535.*"),
    (["--storage=memory", "--listen=rustlog=tcp:{taken}"], r"cannot listen on tcp:\d+: .*in use.*"),
    (
        ["--storage=segments", "--listen=rustlog=tcp:{taken}:interface=127.0.0.1"],
        r"cannot listen on tcp:\d+:interface=127\.0\.0\.1: .*in use.*",
    ),
]


@pytest.mark.parametrize(("options", "line"), FAILING_STARTS)
def test_failing_start(
    tmp_path: Path, runner: str, taken_port: int, options: list[str], line: str
) -> None:
    """A start that fails is one line on stderr, one in the log, and status 1; not a deaf daemon."""
    (tmp_path / "file").touch()
    said = [each.replace("{taken}", str(taken_port)) for each in options]
    done = run(tmp_path, runner, RUNNERS[runner], EPHEMERAL, *said)
    assert done.returncode == 1
    assert re.fullmatch(rf"rustlog: {line}\n", done.stderr), done.stderr
    assert re.search(rf"CRITICAL cannot start: {line}\n", done.stdout), done.stdout
    assert "Traceback" not in done.stdout
    assert "ready: " not in done.stdout


def test_defect(tmp_path: Path, runner: str) -> None:
    """A defect of a plugin is one line on stderr; the traceback is in the log."""
    done = run(tmp_path, runner, RUNNERS[runner], EPHEMERAL, "--storage=defective")
    assert done.returncode == 1
    assert done.stderr == "rustlog: cannot start (see the log): ZeroDivisionError: by zero\n"
    assert "Traceback" in done.stdout


def test_unwritable_log_file(tmp_path: Path) -> None:
    """A log file that can not be written is one line, too."""
    done = run(tmp_path, "twistd", ["-n", "--pidfile=", "--logfile=no/such/file"], "--storage=memory")
    assert done.returncode == 1
    assert re.fullmatch(r"rustlog: cannot write the log file no/such/file: .+\n", done.stderr)


def test_unwritable_data(tmp_path: Path, runner: str) -> None:
    """A data directory that can not be made is one line."""
    (tmp_path / "file").touch()
    done = run(tmp_path, runner, RUNNERS[runner], EPHEMERAL, f"--data-dir={tmp_path / 'file' / 'data'}")
    assert done.returncode == 1
    line = r"rustlog: cannot open the data directory .*Not a directory.*\n"
    assert re.fullmatch(line, done.stderr), done.stderr


# -- in the background -------------------------------------------------------------------


@pytest.fixture
def background(tmp_path: Path) -> Iterator[list[str]]:
    """Options for C{twistd} to daemonize in C{tmp_path}; what is left of it is killed."""
    pid_file = tmp_path / "pid"
    yield [f"--pidfile={pid_file}", f"--logfile={tmp_path / 'log'}"]
    if pid_file.exists():
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def test_background(tmp_path: Path, background: list[str]) -> None:
    """In the background, it listens by the time that the command returns; and ends well."""
    done = run(tmp_path, "twistd", background, EPHEMERAL, f"--data-dir={tmp_path / 'data'}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    log, pid_file = tmp_path / "log", tmp_path / "pid"
    match = re.search(r"ready: rustlog on 127\.0\.0\.1:(\d+)\n", log.read_text())
    assert match is not None, log.read_text()
    with socket.create_connection(("127.0.0.1", int(match[1])), PATIENCE_SECONDS) as connection:
        Client(connection).create("orders")
    os.kill(int(pid_file.read_text()), signal.SIGTERM)
    for _ in every_now_and_then("it is gone", log.read_text):
        if not pid_file.exists():
            break
    assert log.read_text().endswith("INFO  stopped\n")


@pytest.mark.parametrize(("options", "line"), FAILING_STARTS)
def test_failing_background(
    tmp_path: Path, background: list[str], taken_port: int, options: list[str], line: str
) -> None:
    """A daemon that can not start says so to whoever started it, however late it finds out."""
    (tmp_path / "file").touch()
    said = [each.replace("{taken}", str(taken_port)) for each in options]
    done = run(tmp_path, "twistd", background, EPHEMERAL, *said)
    assert done.returncode == 1
    assert re.search(rf"An error has occurred: b['\"]{line}", done.stderr), done.stderr
    assert re.search(rf"CRITICAL cannot start: {line}\n", (tmp_path / "log").read_text())
    for _ in every_now_and_then("it is gone"):
        if not (tmp_path / "pid").exists():
            break
