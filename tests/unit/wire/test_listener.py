"""Tests for L{rustlog.wire.listener}."""

from __future__ import annotations

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rustlog.settings import BrokerConfig
from rustlog.wire.listener import REFUSALS_MAX, Capacity, Place, Places


class CapacityTests(SynchronousTestCase):
    def test_connections(self) -> None:
        """So many may stay; somewhat more are told that they may not."""
        capacity = Capacity(BrokerConfig(max_connections=3), Clock())
        self.assertEqual([capacity.enter() for _ in range(5)], [True] * 3 + [False] * 2)
        self.assertFalse(capacity.is_flooded)
        for _ in range(REFUSALS_MAX - 1):
            capacity.enter()
        self.assertTrue(capacity.is_flooded)
        for _ in range(REFUSALS_MAX + 4):
            capacity.leave()
        self.assertEqual(capacity.connections, 0)
        self.assertTrue(capacity.enter())

    def test_memory(self) -> None:
        """The budget is what was configured, and who waits for it hurries those who hold it."""
        clock = Clock()
        capacity = Capacity(BrokerConfig(queued_max_request_bytes=2**25), clock)
        self.assertIsNone(capacity.budget.requests.reserve(2**24))
        self.assertIsNone(capacity.budget.answers.reserve(2**24))

        class Holder:
            last_progress = 0.0
            is_cut_off = False

            def cut_off(self, reason: str) -> None:
                self.is_cut_off = True

        holder = Holder()
        capacity.slow_clients.watch(holder)
        clock.advance(3)
        self.assertFalse(holder.is_cut_off)
        capacity.budget.answers.reserve(1)
        clock.advance(3)
        self.assertTrue(holder.is_cut_off)


class PlacesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.places = Places()

    def add(self, host: str, port: int, advertised: tuple[str, int] | None = None) -> None:
        kind = IPv6Address if ":" in host else IPv4Address
        self.places.add("spu", kind("TCP", host, port), advertised)

    def find(self, host: str) -> tuple[str, int] | None:
        place = self.places.find("spu", host)
        return None if place is None else place.address_for(host)

    def test_none(self) -> None:
        """There may be no listener of a protocol, or none that has an address."""
        self.places.add("other", IPv4Address("TCP", "127.0.0.1", 1), None)
        self.places.add("spu", UNIXAddress(b"/a"), None)
        self.assertIsNone(self.find("127.0.0.1"))

    def test_where_the_client_is(self) -> None:
        """Of several, the one counts that listens where the client has connected; otherwise the first."""
        self.add("127.0.0.1", 1)
        self.add("::1", 2)
        self.assertEqual(self.find("::1"), ("::1", 2))
        self.assertEqual(self.find("127.0.0.1"), ("127.0.0.1", 1))
        self.assertEqual(self.find("10.0.0.7"), ("127.0.0.1", 1))

    def test_everywhere(self) -> None:
        """One that listens everywhere is told by the address that the client knows already."""
        self.add("0.0.0.0", 1)
        self.assertEqual(self.find("10.0.0.7"), ("10.0.0.7", 1))

    def test_advertised(self) -> None:
        """What is advertised is told instead."""
        self.add("0.0.0.0", 1, ("log.example.org", 7))
        self.assertEqual(self.find("10.0.0.7"), ("log.example.org", 7))
        self.assertEqual(self.places.find("spu", ""), Place("spu", "0.0.0.0", 1, ("log.example.org", 7)))
