"""Tests for L{rustlog_shelf.offsets}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.testing.contracts import OffsetStoreContract
from rustlog_shelf.offsets import ShelfOffsets, ShelfOffsetsSettings, open_store


class ShelfOffsetsTests(OffsetStoreContract, SynchronousTestCase):
    """The shelf does what every offset store must do."""

    def open_store(self, environment: Any) -> Deferred[ShelfOffsets]:
        settings = ShelfOffsetsSettings(self.real_directory(environment))
        log_store: Any = None  # It is not looked at.
        return open_store(settings, environment, log_store)
