"""
The C{segments} store keeps the contract of all stores, whatever an acknowledgement means and
however small its segments are.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import SyncPolicy
from rustlog.settings import TopicConfig
from rustlog.storage.segments.store import SegmentsSettings, SegmentStore, open_store
from rustlog.testing.contracts import LogStoreContract

DATA_DIR = PurePath("/data")


class SegmentStoreTests(LogStoreContract, SynchronousTestCase):
    """As it is by default."""

    sync = SyncPolicy.parse("always")
    topic_defaults = TopicConfig()

    def open_store(self, environment: Any) -> Deferred[SegmentStore]:
        settings = SegmentsSettings(DATA_DIR, self.sync, self.topic_defaults)
        return open_store(settings, environment)


class IntervalSegmentStoreTests(SegmentStoreTests):
    """C{--sync=250}."""

    sync = SyncPolicy.parse("250")


class SmallSegmentStoreTests(SegmentStoreTests):
    """C{--sync=never}, and a new segment for nearly every batch."""

    sync = SyncPolicy.parse("never")
    topic_defaults = TopicConfig(segment_bytes=200, index_interval_bytes=0)
