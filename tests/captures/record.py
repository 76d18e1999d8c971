"""
Records what real clients send: C{python -m tests.captures.record}.

They speak to a real broker through a proxy that looks at the header of each request.
"""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
from pathlib import Path

from rustlog.wire.kafka.apis import APIS
from tests.captures import HERE
from tests.integration.daemon import Daemon, free_port
from tests.integration.kafka_clients import CLIENTS, KafkaUser, Message

SIZE_MAX = 2000


class Recorder:
    """A proxy in front of a broker."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests: dict[tuple[int, int], bytes] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            ours, _ = self._listener.accept()
            theirs = socket.create_connection(("127.0.0.1", self._port))
            for source, target, is_request in ((ours, theirs, True), (theirs, ours, False)):
                threading.Thread(target=self._pass_on, args=(source, target, is_request), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        stream = source.makefile("rb")
        while prefix := stream.read(4):
            payload = stream.read(struct.unpack("!I", prefix)[0])
            if is_request and len(payload) <= SIZE_MAX:
                self.requests.setdefault(struct.unpack_from("!hh", payload), payload)
            target.sendall(prefix + payload)
        target.close()


def record(client: type[KafkaUser], broker: Daemon, recorder: Recorder) -> None:
    """Let one client write and read, and keep what it sent."""
    recorder.requests.clear()
    user = client(f"127.0.0.1:{recorder.port}")
    messages = [Message(b"value", b"key", (("header", b"content"),)), Message(b"other")]
    topic = client.__name__.lower()
    user.produce(topic, messages)
    user.produce(topic, messages, compression="gzip")
    user.consume(topic, 4)
    lines = [
        f"{APIS[key].name} {version} {payload.hex()}\n"
        for (key, version), payload in sorted(recorder.requests.items())
    ]
    (HERE / f"{topic}.hex").write_text("".join(lines))


def main() -> None:
    port = free_port()
    recorder = Recorder(port)
    with tempfile.TemporaryDirectory() as directory:
        listen = f"--listen=kafka=tcp:{port}:interface=127.0.0.1"
        told = f"--advertise=kafka=127.0.0.1:{recorder.port}"
        with Daemon(Path(directory), listen, told, "--storage=memory") as broker:
            for client in CLIENTS:
                record(client, broker, recorder)


if __name__ == "__main__":
    main()
