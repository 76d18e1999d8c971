"""Tests for L{rustlog.producerids}."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import Closed
from rustlog.producerids import BLOCK, ProducerIds


@define
class Blocks:
    """A store of which only the producer ids are asked; its answers come when a test says so."""

    asked: list[Deferred[int]] = field(factory=list)

    def allocate_producer_ids(self, count: int) -> Deferred[int]:
        assert count == BLOCK
        self.asked.append(Deferred())
        return self.asked[-1]


class ProducerIdsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store: Any = Blocks()
        self.ids = ProducerIds(self.store)

    def test_one_block_for_many(self) -> None:
        """The store is asked once for a block of ids, and again when it is used up."""
        first = self.ids.take()
        self.assertNoResult(first)
        self.store.asked[0].callback(5000)
        taken = [self.successResultOf(first)]
        taken += [self.successResultOf(self.ids.take()) for _ in range(BLOCK - 1)]
        self.assertEqual(taken, list(range(5000, 5000 + BLOCK)))
        another = self.ids.take()
        self.store.asked[1].callback(9000)
        self.assertEqual(self.successResultOf(another), 9000)
        self.assertEqual(len(self.store.asked), 2)

    def test_waiting_together(self) -> None:
        """Whoever comes while the store is asked waits for the same answer."""
        waiting = [self.ids.take() for _ in range(3)]
        self.store.asked[0].callback(0)
        self.assertEqual([self.successResultOf(each) for each in waiting], [0, 1, 2])
        self.assertEqual(len(self.store.asked), 1)

    def test_more_than_a_block(self) -> None:
        """A crowd larger than a block is served in its order, from several."""
        waiting = [self.ids.take() for _ in range(BLOCK + 2)]
        self.store.asked[0].callback(0)
        late = self.ids.take()
        self.store.asked[1].callback(7000)
        taken = [self.successResultOf(each) for each in (*waiting, late)]
        self.assertEqual(taken, [*range(BLOCK), 7000, 7001, 7002])

    def test_refusal(self) -> None:
        """When the store refuses, all who wait hear why; the next one asks again."""
        waiting = [self.ids.take() for _ in range(2)]
        self.store.asked[0].errback(Closed())
        for each in waiting:
            self.failureResultOf(each, Closed)
        again = self.ids.take()
        self.store.asked[1].callback(3)
        self.assertEqual(self.successResultOf(again), 3)
