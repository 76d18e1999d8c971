"""Tests for L{rustlog.wire.fluvio.translations}."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.batch import RecordBatch
from rustlog.log.records import build
from rustlog.model import Record
from rustlog.wire.fluvio import translations
from rustlog.wire.fluvio.batches import from_log
from rustlog.wire.fluvio.translations import Translations
from tests.unit.wire.fluvio.client import FluvioCase, values_of

HERE, THERE = (UUID(int=1), 0), (UUID(int=1), 1)


def batch_at(offset: int, size: int = 100) -> RecordBatch:
    return build([Record(b"x" * size)], now_ms=1).at(offset, 0)


class TranslationsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.translated: list[int] = []

        def counted(batch: RecordBatch) -> list[bytes]:
            self.translated.append(batch.base_offset)
            return from_log(batch)

        self.patch(translations, "from_log", counted)
        self.translations = Translations(1000)

    def test_alone(self) -> None:
        """For one stream nothing is kept."""
        self.translations.enter(HERE)
        for _ in range(2):
            self.assertEqual(self.translations.translate(HERE, batch_at(7)), from_log(batch_at(7)))
        self.assertEqual((self.translated, self.translations.used), ([7, 7], 0))

    def test_together(self) -> None:
        """For several, each batch is translated once; other partitions are other ones."""
        for place in (HERE, HERE, THERE, THERE):
            self.translations.enter(place)
        for place in (HERE, THERE) * 2:
            self.assertEqual(self.translations.translate(place, batch_at(7)), from_log(batch_at(7)))
        self.assertEqual(self.translated, [7, 7])

    def test_bounds(self) -> None:
        """What was not wanted for the longest time makes room; one that is too large is not kept."""
        for _ in range(2):
            self.translations.enter(HERE)
        for offset in (0, 1, 2, 3, 0, 4, 5):
            self.translations.translate(HERE, batch_at(offset))
            self.assertLessEqual(self.translations.used, 1000)
        self.translated.clear()
        self.translations.translate(HERE, batch_at(0))
        self.translations.translate(HERE, batch_at(1))
        self.assertEqual(self.translated, [1])
        self.translations.translate(HERE, batch_at(9, 5000))
        self.assertEqual(self.translations.used, 0)

    def test_leaving(self) -> None:
        """When the others have left, it is as if they had never been there."""
        for _ in range(2):
            self.translations.enter(HERE)
        self.translations.leave(HERE)
        self.translations.translate(HERE, batch_at(1))
        self.assertEqual(self.translations.used, 0)
        self.translations.leave(HERE)
        self.assertEqual(len(self.translations._readers), 0)


class SharedTests(FluvioCase):
    def test_connections(self) -> None:
        """Connections of a listener share what they read, and leave nothing behind."""
        clients = [self.world.fluvio_client() for _ in range(3)]
        shared = clients[0].connection._translations
        for each in clients:
            self.assertIs(each.connection._translations, shared)
            each.stream(0)
        self.append(b"a", b"b")
        for each in clients:
            self.assertEqual(values_of(each.one()), [(0, b"a"), (1, b"b")])
            each.disconnect()
        self.assertGreater(shared.used, 0)
        self.assertEqual(len(shared._readers), 0)
