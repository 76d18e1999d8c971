"""
Plugins by others: the example of the tutorials, installed with pip, chosen by name.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tests.integration.daemon import PATIENCE_SECONDS, ROOT, Client, Daemon, command
from tests.integration.installation import IGNORED, Installation, copy_checkout, run

EXAMPLE = ROOT / "docs" / "examples" / "rustlog-shelf"
SHELF = ("--storage=shelf", "--offsets=shelf", "--listen=lines=tcp:0:interface=127.0.0.1")
ORDERS = {"topic": "orders", "partition": 0}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """rustlog, and the example beside it, as pip installs them."""
    place = tmp_path_factory.mktemp("third-party")
    installation = Installation(place)
    shutil.copytree(EXAMPLE, place / "example", ignore=IGNORED)
    installation.install(str(copy_checkout(place / "checkout")), str(place / "example"))
    return installation


@pytest.fixture
def shelf(make_daemon: Callable[..., Daemon], installed: Installation) -> Daemon:
    """A broker that runs on nothing but the example, and speaks its protocol as well."""
    return make_daemon(*SHELF, python=installed.python)


class Terminal:
    """Somebody who types lines."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rwb")

    def say(self, line: str) -> str:
        """The answer to a line."""
        self._stream.write(line.encode() + b"\n")
        self._stream.flush()
        return self._stream.readline().decode().rstrip("\n")


@contextmanager
def terminal(daemon: Daemon) -> Iterator[Terminal]:
    with socket.create_connection(("127.0.0.1", daemon.ports[1]), PATIENCE_SECONDS) as connection:
        yield Terminal(connection)


def test_own_tests(installed: Installation) -> None:
    """The example passes its own tests where it is installed, the contract suites among them."""
    trial = "import sys; from twisted.scripts.trial import run; sys.argv[0] = 'trial'; run()"
    said = run([installed.python, "-c", trial, "--reporter=text", "rustlog_shelf"], installed.elsewhere)
    last = said.strip().splitlines()[-1]
    assert last.startswith("PASSED (successes="), said
    assert "skips" not in last
    assert int(last.partition("=")[2].rstrip(")")) > 150


def test_help(installed: Installation) -> None:
    """What is installed is listed, with its settings."""
    listed = installed.twistd("rustlog", "--help")
    for each in ("in an SQLite database", "shelf.cache.kib", "lines.line.bytes", "Commands in lines of text"):
        assert each in listed


def test_producer_and_consumer(shelf: Daemon) -> None:
    """The store serves producers and consumers of both protocols, and groups their offsets."""
    shelf.start()
    with shelf.client() as client, terminal(shelf) as person:
        client.create("orders")
        produced = client.call("Produce", **ORDERS, records=[list(b"one tea"), list(b"two coffees")])
        assert produced == {"Produce": {"offsets": [0, 1]}}
        assert person.say("PUT orders 0 three cakes") == "OK 2"
        assert person.say("GET orders 0 1") == "OK 1 two coffees"
        assert client.read_all("orders") == {0: b"one tea", 1: b"two coffees", 2: b"three cakes"}
        committed = client.call("OffsetCommit", **ORDERS, group_id="kitchen", offset=2)
        assert committed == {"OffsetCommit": {"success": True}}
        assert client.call("OffsetFetch", **ORDERS, group_id="kitchen") == {"OffsetFetch": {"offset": 2}}
    shelf.stop()
    assert "Traceback" not in shelf.log


def test_transcript(shelf: Daemon) -> None:
    """The conversation in the tutorial goes as it is written there."""
    page = (ROOT / "docs" / "tutorial" / "write-a-protocol.md").read_text("utf-8")
    (transcript,) = re.findall(r"^```session\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    turns = re.findall(r"^> (.*)\n(.*)\n", transcript, re.MULTILINE)
    assert len(turns) > 5
    shelf.start()
    with terminal(shelf) as person:
        assert [(line, person.say(line)) for line, _ in turns] == turns


def test_consumer_waits(shelf: Daemon) -> None:
    """A consumer that waits hears of what another client produces."""
    shelf.start()
    with shelf.client() as client, terminal(shelf) as person:
        assert person.say("MAKE orders 1") == "OK"
        heard: list[str] = []
        waiting = Thread(target=lambda: heard.append(person.say("GET orders 0 0 20000")))
        waiting.start()
        client.call("Produce", **ORDERS, records=[list(b"at last")])
        waiting.join(PATIENCE_SECONDS)
        assert heard == ["OK 0 at last"]


def test_killed(shelf: Daemon) -> None:
    """What was acknowledged is there after kill -9: records, offsets, topics, whoever acknowledged it."""
    acknowledged: dict[int, bytes] = {}
    shelf.start()
    with shelf.client() as client:
        client.create("orders", 2)
    for life in range(3):
        with shelf.client() as client, terminal(shelf) as person:
            for number in range(20):
                value = b"%d.%d" % (life, number)
                answer = client.call("Produce", **ORDERS, records=[list(value)])
                acknowledged[answer["Produce"]["offsets"][0]] = value
                put = person.say(f"PUT orders 0 line {life}.{number}")
                acknowledged[int(put.removeprefix("OK "))] = b"line %d.%d" % (life, number)
            committed = len(acknowledged)
            client.call("OffsetCommit", **ORDERS, group_id="kitchen", offset=committed)
            send_without_waiting(client)
            shelf.signal(signal.SIGKILL)
            shelf.wait()
        shelf.start()
        with shelf.client() as client:
            found = client.read_all("orders")
            assert {offset: found.get(offset) for offset in acknowledged} == acknowledged
            acknowledged = found
            fetched = client.call("OffsetFetch", **ORDERS, group_id="kitchen")
            assert fetched == {"OffsetFetch": {"offset": committed}}


def send_without_waiting(client: Client) -> None:
    """The broker dies in the middle of something."""
    for _ in range(50):
        client.send("Produce", **ORDERS, records=[list(b"perhaps")])


def test_drained(shelf: Daemon) -> None:
    """A stop answers what has come, over both protocols, and what was answered is there afterwards."""
    shelf.start()
    with shelf.client() as client, terminal(shelf) as person:
        client.create("orders")
        assert person.say("PUT orders 0 last order") == "OK 0"
        shelf.stop()
    shelf.start()
    with shelf.client() as client:
        assert client.read_all("orders") == {0: b"last order"}


def test_line_too_long(make_daemon: Callable[..., Daemon], installed: Installation) -> None:
    """Who types too much hears of the limit, which is a setting of the protocol."""
    shelf = make_daemon(*SHELF, "--set=lines.line.bytes=1000", python=installed.python).start()
    with terminal(shelf) as person:
        assert person.say("MAKE orders 1") == "OK"
        assert person.say("PUT orders 0 " + "x" * 2000) == "ERR a line may have 1000 bytes"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--storage=shelve"], "no log store is called 'shelve'; did you mean shelf?"),
        (["--storage=shelf", "--set=shelf.cache.kib=1"], "'cache_kib' must be >= 64: 1"),
        (["--listen=lines=tcp:0", "--set=lines.line.bytes=many"], "lines.line.bytes: 'many' is not accept"),
    ],
)
def test_wrong_options(installed: Installation, options: list[str], complaint: str) -> None:
    """What is wrong with a plugin's name or settings is one clear line."""
    arguments = [installed.python, *command("twistd", "-n", "--pidfile=", "rustlog", *options)[1:]]
    done = subprocess.run(
        arguments,
        cwd=installed.elsewhere,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert complaint in done.stdout
    assert "Traceback" not in done.stdout


def test_in_use(shelf: Daemon, make_daemon: Callable[..., Daemon], installed: Installation) -> None:
    """A second broker does not open the same database, and says so in one line."""
    shelf.start()
    second = make_daemon("--storage=shelf", python=installed.python).launch()
    assert second.wait() == 1
    assert "cannot open" in second.log and "database is locked" in second.log
    assert "Traceback" not in second.log


def test_not_a_database(make_daemon: Callable[..., Daemon], installed: Installation, tmp_path: Path) -> None:
    """A file that is something else is left alone."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "shelf.db").write_text("dear diary, " * 1000)
    daemon = make_daemon("--storage=shelf", python=installed.python).launch()
    assert daemon.wait() == 1
    assert "file is not a database" in daemon.log
    assert (data / "shelf.db").read_text() == "dear diary, " * 1000
