"""Tests for L{rustlog.offsets.file}."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.testing.contracts import OffsetStoreContract
from tests.unit.offsets.stores import FileStores


class FileOffsetsContractTests(OffsetStoreContract, SynchronousTestCase):
    """The file offset store does what every offset store must do."""

    def open_store(self, environment: Any) -> Any:
        return FileStores().open(environment)
