"""Any bytes are answered: no exception, no closed connection; nor does a client stumble over an answer."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.rustlog.binary import is_binary
from rustlog.wire.rustlog.codec import BadResponse, decode_response
from rustlog.wire.rustlog.messages import INCLUDABLE, REQUESTS, RESPONSES
from tests.binary_client import (
    commit,
    committed,
    create,
    describe_partition,
    describe_topic,
    fetch,
    parse,
    produce,
)
from tests.unit.wire.harness import World, frame, frames

NUMBERS = st.integers(-2, 3) | st.sampled_from([255, 256, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
PLAIN = st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(max_size=4)
WORDS = st.sampled_from(
    [
        "orders",
        "g",
        "base64",
        "json",
        "earliest",
        "latest",
        "max_timestamp",
        "aGk=",
        "retention.ms",
        *INCLUDABLE,
    ]
)
VALUES = st.recursive(
    PLAIN | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=6,
)
FIELDS = [
    "topic", "partition", "partitions", "records", "keys", "headers", "timestamps", "encoding", "offset",
    "max_bytes", "group_id", "min_bytes", "include", "auto_commit", "offset_reset", "config", "at", "before",
]  # fmt: skip
GOOD: dict[str, Any] = {
    "topic": "orders",
    "partition": 0,
    "records": [[1]],
    "offset": 0,
    "max_bytes": 10,
    "group_id": "g",
    "at": "latest",
    "before": 0,
}
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4).map(lambda some: {**GOOD, **some})
MESSAGES = st.one_of(
    st.dictionaries(st.sampled_from(list(REQUESTS)), BODIES | VALUES, min_size=1, max_size=1),
    st.dictionaries(st.sampled_from([*REQUESTS, "X"]), VALUES, max_size=2),
    st.sampled_from(list(REQUESTS)),
    VALUES,
)
BINARY = st.sampled_from(
    [
        produce(b"a", b"b"),
        fetch(group="g"),
        commit(1),
        committed(),
        create("new"),
        describe_topic("orders"),
        describe_partition("orders"),
        b"\x06",
        b"\x09",
        b"\xff",
    ]
)


@st.composite
def damaged(draw: Any) -> bytes:
    """A good request of which a few bytes are changed, lost or too many."""
    data = bytearray(draw(BINARY))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) + draw(st.binary(max_size=3))


class FuzzTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.world.create("orders", 1)
        self.client = self.world.client()

    def check(self, payload: bytes) -> None:
        """It is answered, in its own encoding, and the next request is, too."""
        self.client.send_bytes(frame(payload))
        while not self.client.transport.value():
            self.world.clock.advance(0)  # Metrics are found out in steps.
        (answer,) = frames(self.client.transport.value())
        self.client.transport.clear()
        if is_binary(payload):
            parse(answer)
        else:
            (name,) = json.loads(answer)
            self.assertIn(name, [*REQUESTS, "Error"])
        self.assertNotIn(b"internal error", answer)
        self.assertEqual(self.client.ask_raw(b"\xff"), b"\xff")
        self.assertFalse(self.client.transport.disconnecting)

    def test_any_bytes(self) -> None:
        """Bytes of any kind."""

        @settings(deadline=None, max_examples=150)
        @given(st.binary(max_size=40))
        @example(b"")
        @example(b"\x09")
        @example(b"\xfe\x00")
        def check(payload: bytes) -> None:
            self.check(payload)

        check()

    def test_any_json(self) -> None:
        """Requests in JSON with anything in their fields."""

        @settings(deadline=None, max_examples=200)
        @given(MESSAGES)
        def check(message: object) -> None:
            self.check(json.dumps(message).encode())

        check()

    def test_damaged_binary(self) -> None:
        """Requests in binary, more or less."""

        @settings(deadline=None, max_examples=150)
        @given(damaged())
        def check(payload: bytes) -> None:
            self.check(payload)

        check()


FIELDS_OF_RESPONSES = sorted({field.name for each in RESPONSES.values() for field in attrs.fields(each)})
PARTS = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*FIELDS_OF_RESPONSES, "payload", "key", "headers", "topic"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


class ClientFuzzTests(SynchronousTestCase):
    def test_any_response(self) -> None:
        """Whatever a broker says, a client has a response, or one error for all that is none."""

        @settings(deadline=None, max_examples=150)
        @given(
            st.sampled_from(list(RESPONSES)),
            st.dictionaries(st.sampled_from(FIELDS_OF_RESPONSES), PARTS, max_size=6) | PARTS,
        )
        def check(name: str, body: object) -> None:
            payload = json.dumps({name: body}).encode()
            with contextlib.suppress(BadResponse):
                self.assertIsInstance(decode_response(payload), RESPONSES[name])

        check()
