"""
The C{minikafka} store keeps the contract of all stores, within the limits of its format.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import NotHeldByStore
from rustlog.log.codecs import Codec
from rustlog.model import Record, SyncPolicy
from rustlog.settings import TopicConfig
from rustlog.storage.minikafka.store import MiniKafkaSettings, MiniKafkaStore, open_store
from rustlog.testing.contracts import LogStoreContract
from rustlog.testing.contracts.harness import in_every_course

DATA_DIR = PurePath("/data")
KEPT_FOR_THE_CONTRACT = 1000
"""The contract fills more segments than MiniKafka keeps."""


@in_every_course
class MiniKafkaStoreTests(LogStoreContract, SynchronousTestCase):
    """As it is by default.  Where the format can not hold something, its rule takes the contract's place."""

    sync = SyncPolicy.parse("always")
    topic_defaults = TopicConfig()

    def open_store(self, environment: Any) -> Deferred[MiniKafkaStore]:
        settings = MiniKafkaSettings(
            DATA_DIR, self.sync, self.topic_defaults, segments_kept=KEPT_FOR_THE_CONTRACT
        )
        return open_store(settings, environment)

    def test_null_keys(self) -> None:
        """No key becomes an empty key."""
        partition = self.create()
        self.send_batch(partition, self.batch_of(Record(b"a", key=None), Record(b"b", key=b"")))
        self.assertEqual([each.key for each in self.stored(partition)], [b"", b""])

    def test_null_values(self) -> None:
        """No value is refused, and nothing of its batch is kept."""
        partition = self.create()
        (answer,) = self.append((partition, self.batch_of(Record(b"a", key=b"k"), Record(None, key=b"k"))))
        self.assertIsInstance(answer, NotHeldByStore)
        self.assertEqual(self.stored(partition), [])

    def test_headers(self) -> None:
        """So are headers."""
        partition = self.create()
        (answer,) = self.append((partition, self.batch_of(Record(b"a", headers=(("trace", b"1"),)))))
        self.assertIsInstance(answer, NotHeldByStore)
        self.assertEqual(self.stored(partition), [])

    def test_compression(self) -> None:
        """A compressed batch is stored without compression, whatever the codec."""
        partition = self.create()
        values = [b"again and again " * 20] * 10
        for codec in Codec:
            self.send_batch(partition, self.batch(*values, codec=codec))
        self.assertEqual(self.values(partition), values * len(Codec))
        (first, *_) = self.read_one(partition, 0)
        self.assertEqual(first.codec, Codec.NONE)


class SmallSegmentsTests(MiniKafkaStoreTests):
    """C{--sync=never}, and a new segment for nearly every batch."""

    sync = SyncPolicy.parse("never")
    topic_defaults = TopicConfig(segment_bytes=200, index_interval_bytes=0)
