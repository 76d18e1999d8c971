"""A broker that is killed again and again under an idempotent producer."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.integration.daemon import PATIENCE_SECONDS, Daemon, free_port
from tests.integration.kafka_clients import Confluent

KILLS = int(os.environ.get("RUSTLOG_KILLS", "3"))


class Producing(threading.Thread):
    """
    Produces without a pause until it is told to stop.

    @ivar acknowledged: offsets by value.
    """

    def __init__(self, server: str) -> None:
        super().__init__()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": server,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "delivery.timeout.ms": 2 * PATIENCE_SECONDS * 1000,
                "log_level": 0,
            }
        )
        self._is_over = threading.Event()
        self.sent = 0
        self.acknowledged: dict[bytes, int] = {}
        self.failed: list[Any] = []

    def run(self) -> None:
        while not self._is_over.is_set():
            if len(self._producer) < 2_000:
                value = b"%d " % self.sent + bytes(self.sent % 300)
                self._producer.produce("orders", value, partition=0, on_delivery=self._delivered)
                self.sent += 1
            self._producer.poll(0.001 if self.sent % 50 == 0 else 0)
        self._producer.flush(PATIENCE_SECONDS)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.value()] = message.offset()
        else:
            self.failed.append(error)

    def stop(self) -> None:
        self._is_over.set()
        self.join()


@pytest.mark.parametrize("storage", ["segments", "minikafka"])
def test_killed_under_an_idempotent_producer(tmp_path: Path, storage: str) -> None:
    """Nothing acknowledged is lost, nothing is doubled, and in the end everything is there, in order."""
    port = free_port()
    chance = random.Random(1)
    listen = f"kafka=tcp:{port}:interface=127.0.0.1"
    with Daemon(tmp_path, f"--storage={storage}", listen=listen) as daemon:
        producing = Producing(f"127.0.0.1:{port}")
        producing.start()
        try:
            for _ in range(KILLS):
                known = len(producing.acknowledged)
                deadline = time.monotonic() + PATIENCE_SECONDS
                while len(producing.acknowledged) < known + 500 and time.monotonic() < deadline:
                    time.sleep(0.01)
                assert len(producing.acknowledged) > known, daemon.describe()
                time.sleep(chance.uniform(0, 0.2))
                daemon.kill()
                daemon.start()
        finally:
            producing.stop()
        assert producing.failed == []
        assert len(producing.acknowledged) == producing.sent
        found = Confluent(f"127.0.0.1:{port}").consume("orders", producing.sent)
        assert {each.value: each.offset for each in found} == producing.acknowledged
        doubled = [value for value, count in Counter(each.value for each in found).items() if count > 1]
        assert doubled == []
        numbers = [int((each.value or b"").split()[0]) for each in found]
        assert numbers == list(range(producing.sent))
