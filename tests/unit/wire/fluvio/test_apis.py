"""Tests for L{rustlog.wire.fluvio.apis} and L{rustlog.wire.fluvio.versions}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.fluvio import apis
from rustlog.wire.fluvio.apis import API_VERSIONS, APIS, BOTH_ROLES, Role, offered, route
from rustlog.wire.fluvio.codec import MESSAGES, decode_request
from rustlog.wire.fluvio.versions import ApiVersionsRequest, OfferedVersions

CLIENT_RANGES = {
    apis.CREATE: (9, 19),
    apis.DELETE: (1, 19),
    apis.LIST: (15, 19),
    apis.WATCH: (15, 19),
    apis.PRODUCE: (0, 24),
    apis.FETCH_OFFSETS: (23, 24),
    apis.STREAM_FETCH: (23, 24),
    apis.UPDATE_OFFSETS: (0, 0),
    apis.UPDATE_CONSUMER_OFFSET: (23, 24),
    apis.DELETE_CONSUMER_OFFSET: (23, 24),
    apis.FETCH_CONSUMER_OFFSETS: (23, 24),
}
"""What the C{fluvio} package 0.21.0 can speak."""


class OfferTests(SynchronousTestCase):
    def test_clients_find_what_they_need(self) -> None:
        """A client takes the first range of a key that fits, and arrives at the API that it means."""
        for roles in ({Role.SC}, {Role.SPU}, BOTH_ROLES):
            for api, (first, last) in CLIENT_RANGES.items():
                if api.roles.isdisjoint(roles):
                    continue
                fitting = [
                    each
                    for each in offered(roles)
                    if each.key == api.key and each.max_version >= first and each.min_version <= last
                ]
                version = min(last, fitting[0].max_version)
                self.assertIs(route(api.key, version, roles), api)
                self.assertTrue(api.accepts(version))

    def test_one_port(self) -> None:
        """A port that is everything lists everything."""
        both = offered(BOTH_ROLES)
        self.assertEqual(set(both), {*offered({Role.SC}), *offered({Role.SPU})})
        self.assertEqual(
            [each for each in both if each.key == 1002],
            [OfferedVersions(1002, 11, 19), OfferedVersions(1002, 24, 24)],
        )

    def test_offers_are_accepted(self) -> None:
        """Nobody is told of what would be refused."""
        for api in APIS:
            self.assertLessEqual(set(api.versions), set(api.accepted))

    def test_all_have_messages(self) -> None:
        """What is offered can be read and written."""
        self.assertEqual(set(MESSAGES), set(APIS))


class RouteTests(SynchronousTestCase):
    def test_keys_with_two_meanings(self) -> None:
        """What a key means depends on the port, or where that is both, on the version."""
        self.assertIs(route(1002, 19, {Role.SC}), apis.DELETE)
        self.assertIs(route(1002, 24, {Role.SPU}), apis.FETCH_OFFSETS)
        self.assertIs(route(1002, 19, BOTH_ROLES), apis.DELETE)
        self.assertIs(route(1002, 23, BOTH_ROLES), apis.FETCH_OFFSETS)
        self.assertIs(route(1003, 19, BOTH_ROLES), apis.LIST)
        self.assertIs(route(1003, 23, BOTH_ROLES), apis.STREAM_FETCH)
        self.assertIs(route(1003, 17, {Role.SPU}), apis.STREAM_FETCH)
        self.assertIs(route(1005, 0, BOTH_ROLES), apis.UPDATE_OFFSETS)
        self.assertIs(route(1006, 24, BOTH_ROLES), apis.UPDATE_CONSUMER_OFFSET)

    def test_unknown(self) -> None:
        """What a port has not is not there."""
        self.assertIsNone(route(0, 24, {Role.SC}))
        self.assertIsNone(route(1001, 19, {Role.SPU}))
        self.assertIsNone(route(1, 10, BOTH_ROLES))
        self.assertFalse(apis.CREATE.accepts(10))
        self.assertFalse(apis.PRODUCE.accepts(25))

    def test_unknown_versions_of_the_first_question(self) -> None:
        """Whatever version a client asks in, it is told what there is."""
        self.assertTrue(API_VERSIONS.accepts(99))
        asked = decode_request(API_VERSIONS, 99, b"\0\x01a\0\x01b\0\x01c and more", 0)
        self.assertEqual(asked, ApiVersionsRequest("a", "b", "c"))
        self.assertEqual(decode_request(API_VERSIONS, 0, b"", 0), ApiVersionsRequest())
