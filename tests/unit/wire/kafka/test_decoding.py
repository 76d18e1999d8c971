"""Tests for L{rustlog.wire.kafka.decoding}: what C{kio} writes is read back, for every API and version."""

from __future__ import annotations

from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from random import Random
from types import NoneType
from typing import Any, get_args
from uuid import UUID

from kio.schema.errors import ErrorCode
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.kafka.apis import APIS
from rustlog.wire.kafka.decoding import decode
from rustlog.wire.kafka.fields import array_type, item_class
from rustlog.wire.kafka.primitives import ITEMS_MAX, Unreadable
from rustlog.wire.kafka.schema import make, request_class, response_class
from tests.seeds import seeds
from tests.unit.wire.kafka.kio_bytes import kio_encode

METADATA, API_VERSIONS = 3, 18


class Making:
    """Makes up messages."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def entity(self, entity_class: type[Any]) -> Any:
        return entity_class(**{each.name: self.field(each) for each in fields(entity_class)})

    def field(self, field: Field[Any]) -> Any:
        is_nullable = NoneType in get_args(field.type) and "tag" not in field.metadata
        if is_nullable and self.chance.random() < 0.3:
            return None
        if array_type(field.type) is not None:
            return tuple(self.one(field) for _ in range(self.chance.randrange(3)))
        return self.one(field)

    def one(self, field: Field[Any]) -> Any:
        entity_class = item_class(field)
        if entity_class is not None:
            return self.entity(entity_class)
        kind = field.metadata["kafka_type"]
        chance = self.chance
        if kind.startswith(("int", "uint")):
            bits = int(kind.lstrip("uint"))
            low, high = (
                (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            )
            return chance.choice((low, high, chance.randint(low, high)))
        return {
            "bool": lambda: chance.random() < 0.5,
            "float64": lambda: chance.uniform(-1e9, 1e9),
            "string": lambda: "".join(chance.choices("aé漢", k=chance.randrange(200))),
            "bytes": lambda: chance.randbytes(chance.randrange(200)),
            "records": lambda: chance.randbytes(chance.randrange(200)),
            "uuid": lambda: UUID(int=chance.getrandbits(128)),
            "error_code": lambda: chance.choice(list(ErrorCode)),
            "timedelta_i32": lambda: timedelta(milliseconds=chance.randrange(2**31)),
            "timedelta_i64": lambda: timedelta(milliseconds=chance.randrange(2**40)),
            "datetime_i64": lambda: datetime.fromtimestamp(chance.randrange(2**32), UTC),
        }[kind]()


class RoundTripTests(SynchronousTestCase):
    def test_every_message(self) -> None:
        """Requests and responses of every API and version are read as they were written."""
        for seed in seeds(3):
            making = Making(Random(seed))
            for api in APIS.values():
                for version in api.versions:
                    for find in (request_class, response_class):
                        made = making.entity(find(api.key, version))
                        self.assertEqual(decode(type(made), kio_encode(made)), made, f"seed {seed}")


class DistrustTests(SynchronousTestCase):
    def test_anything(self) -> None:
        """Whatever it is, it is a message or it is not; and nothing else happens."""
        for seed in seeds(300):
            chance = Random(seed)
            api = APIS[chance.choice(list(APIS))]
            wanted = request_class(api.key, chance.choice(api.versions))
            data = bytearray(kio_encode(Making(chance).entity(wanted)))
            for _ in range(chance.randrange(4)):
                if data:
                    data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255))
            try:
                read = decode(wanted, data)
            except Unreadable:
                continue
            self.assertIsInstance(read, wanted)

    def test_large_claims(self) -> None:
        """An array that claims to have more items than there are bytes takes no memory."""
        for claim in (b"\x7f\xff\xff\xff", b"\x00\x00\xff\xff"):
            self.assertRaises(Unreadable, decode, request_class(METADATA, 1), claim + b"\0" * 100)
        self.assertRaises(
            Unreadable, decode, request_class(METADATA, 9), b"\xff\xff\xff\xff\x07" + b"\1" * 100
        )

    def test_too_many_items(self) -> None:
        """Nor does a message of a few megabytes become one of gigabytes."""
        count = ITEMS_MAX + 1
        data = count.to_bytes(4, "big") + b"\0\0" * count
        error = self.assertRaises(Unreadable, decode, request_class(METADATA, 1), data)
        self.assertIn(str(ITEMS_MAX), str(error))

    def test_too_many_tags(self) -> None:
        """The same for tagged fields."""
        data = b"\1\1\xff\xff\xff\x7f" + b"\0\0" * 100
        self.assertRaises(Unreadable, decode, request_class(API_VERSIONS, 3), data)

    def test_nulls(self) -> None:
        """What must be there must not be null."""
        self.assertRaises(Unreadable, decode, request_class(METADATA, 0), b"\xff\xff\xff\xff")
        self.assertRaises(Unreadable, decode, request_class(API_VERSIONS, 3), b"\0\1\0")


class TagTests(SynchronousTestCase):
    def test_unknown_tags(self) -> None:
        """Tagged fields that came later than we did are skipped."""
        wanted = request_class(API_VERSIONS, 3)
        request = make(wanted, client_software_name="me", client_software_version="7")
        data = kio_encode(request)
        self.assertEqual(data[-1:], b"\0")
        self.assertEqual(decode(wanted, data[:-1] + b"\1\x63\3abc"), request)

    def test_known_tags(self) -> None:
        """Known ones are read, and must be read to their end."""
        wanted = response_class(API_VERSIONS, 3)
        response = make(wanted, api_keys=[], finalized_features_epoch=77)
        data = kio_encode(response)
        self.assertEqual(decode(wanted, data).finalized_features_epoch, 77)
        longer = data.replace(
            b"\1\x08" + (77).to_bytes(8, "big"), b"\1\x09" + (77).to_bytes(8, "big") + b"\0"
        )
        self.assertNotEqual(longer, data)
        self.assertRaises(Unreadable, decode, wanted, longer)
