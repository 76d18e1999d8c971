"""
The C{minikafka} store keeps the contract of all stores, within the limits of its format.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.model import SyncPolicy
from rustlog.settings import TopicConfig
from rustlog.storage.minikafka.store import MiniKafkaSettings, MiniKafkaStore, open_store
from rustlog.testing.contracts import LogStoreContract

DATA_DIR = PurePath("/data")
KEPT_FOR_THE_CONTRACT = 1000
"""The contract fills more segments than MiniKafka keeps."""


class MiniKafkaStoreTests(LogStoreContract, SynchronousTestCase):
    """As it is by default."""

    sync = SyncPolicy.parse("always")
    topic_defaults = TopicConfig()

    # The format can not hold these; what becomes of them instead is in test_format.py.
    test_compression = test_headers = test_null_keys = test_null_values = None

    def open_store(self, environment: Any) -> Deferred[MiniKafkaStore]:
        settings = MiniKafkaSettings(
            DATA_DIR, self.sync, self.topic_defaults, segments_kept=KEPT_FOR_THE_CONTRACT
        )
        return open_store(settings, environment)


class SmallSegmentsTests(MiniKafkaStoreTests):
    """C{--sync=never}, and a new segment for nearly every batch."""

    sync = SyncPolicy.parse("never")
    topic_defaults = TopicConfig(segment_bytes=200, index_interval_bytes=0)
