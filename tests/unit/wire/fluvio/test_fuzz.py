"""Whatever bytes come: there is a value, or the one error that says that there is none."""

from __future__ import annotations

import tracemalloc
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import RustlogError
from rustlog.log.records import decode
from rustlog.wire.fluvio.apis import APIS, Api
from rustlog.wire.fluvio.batches import to_log
from rustlog.wire.fluvio.codec import decode_request, decode_response
from rustlog.wire.fluvio.headers import read_header
from rustlog.wire.fluvio.primitives import Unreadable
from rustlog.wire.fluvio.produce import ProduceRequest
from tests.captures.fluvio import Message, messages

ALL = list(messages())
MEMORY_MAX = 1_000_000


def attempt(api: Api, version: int, data: bytes, *, is_request: bool) -> Any:
    """What a server, or a client, would do with it."""
    try:
        if not is_request:
            return decode_response(api, version, data, 4)
        header = read_header(data)
        request = decode_request(api, version, data, header.end)
    except Unreadable:
        return None
    if isinstance(request, ProduceRequest):
        _translate(request)
    return request


def _translate(request: ProduceRequest) -> None:
    """What is kept of it is sound."""
    for topic in request.topics:
        for entry in topic.partitions:
            try:
                kept = to_log(entry.batches, 5)
            except RustlogError:
                continue
            for batch in kept:
                batch.check()
                assert len(list(decode(batch))) == batch.record_count


class FuzzTests(SynchronousTestCase):
    def test_truncated(self) -> None:
        """A message that ends too early is none, or says less."""
        for each in ALL:
            if len(each.content) < 200:
                for size in range(len(each.content)):
                    attempt(each.api, each.version, each.content[:size], is_request=each.is_request)

    def test_claims(self) -> None:
        """A size or a count that is as large as can be, wherever it stands, takes no memory."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for each in ALL:
            if len(each.content) < 100:
                for position in range(4, len(each.content) - 3):
                    claim = each.content[:position] + b"\x7f\xff\xff\xff" + each.content[position + 4 :]
                    attempt(each.api, each.version, claim, is_request=each.is_request)
        self.assertLess(tracemalloc.get_traced_memory()[1], MEMORY_MAX)

    def test_changed(self) -> None:
        """A byte that is not as it was does no harm."""

        @settings(deadline=None, max_examples=300)
        @given(st.sampled_from(ALL), st.data())
        def check(each: Message, data: st.DataObject) -> None:
            changed = bytearray(each.content)
            for _ in range(data.draw(st.integers(1, 3))):
                changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(
                    st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])
                )
            attempt(each.api, each.version, bytes(changed), is_request=each.is_request)

        check()

    def test_anything(self) -> None:
        """Nor do bytes that were never a message."""

        @settings(deadline=None, max_examples=200)
        @given(st.sampled_from(APIS), st.binary(max_size=80), st.booleans(), st.data())
        def check(api: Api, content: bytes, is_request: bool, data: st.DataObject) -> None:
            version = data.draw(st.sampled_from(api.versions))
            head = bytes(10) if is_request else bytes(4)
            attempt(api, version, head + content, is_request=is_request)

        check()
