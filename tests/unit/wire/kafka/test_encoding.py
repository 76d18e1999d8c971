"""Tests for L{rustlog.wire.kafka.encoding}: every message has the bytes that C{kio} gives it."""

from __future__ import annotations

import struct
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.encoding import encode
from rustlog.wire.kafka.schema import make, request_class, response_class
from tests.seeds import seeds
from tests.unit.wire.kafka.kio_bytes import kio_encode
from tests.unit.wire.kafka.test_decoding import Making

METADATA, DELETE_TOPICS, API_VERSIONS = 3, 20, 18


class EncodingTests(SynchronousTestCase):
    def test_every_message(self) -> None:
        """Requests and responses of every API and version, whatever they say."""
        for seed in seeds(5):
            making = Making(Random(seed))
            for api in APIS.values():
                for version in api.versions:
                    for entity_class in (request_class(api.key, version), response_class(api.key, version)):
                        made = making.entity(entity_class)
                        self.assertEqual(encode(made), kio_encode(made), f"seed {seed}")

    def test_tags(self) -> None:
        """Tagged fields that say nothing are left out."""
        wanted = response_class(API_VERSIONS, 3)
        for fields in ({}, {"finalized_features_epoch": 77}, {"zk_migration_ready": True}):
            made = make(wanted, api_keys=[], **fields)
            self.assertEqual(encode(made), kio_encode(made))

    def test_long_texts(self) -> None:
        """Lengths of more than a byte."""
        for version in (8, 9):
            made = make(request_class(METADATA, version), topics=[{"name": "x" * 30_000}] * 300)
            self.assertEqual(encode(made), kio_encode(made))

    def test_impossible(self) -> None:
        """What a message can not hold is a mistake that is not sent."""
        too_long = make(request_class(METADATA, 1), topics=[{"name": "x" * 2**15}])
        self.assertRaises(struct.error, encode, too_long)
        missing = make(response_class(DELETE_TOPICS, 1), responses=[{"name": None}])
        self.assertRaises(TypeError, encode, missing)
