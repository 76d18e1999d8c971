"""Tests for L{rustlog_shelf.store}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.testing.contracts import LogStoreContract
from rustlog_shelf.store import ShelfSettings, ShelfStore, open_store


class ShelfStoreTests(LogStoreContract, SynchronousTestCase):
    """The shelf does what every log store must do."""

    def open_store(self, environment: Any) -> Deferred[ShelfStore]:
        return open_store(ShelfSettings(self.real_directory(environment)), environment)
