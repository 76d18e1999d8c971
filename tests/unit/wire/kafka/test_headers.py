"""Tests for L{rustlog.wire.kafka.headers}."""

from __future__ import annotations

from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.kafka.headers import encode_header, encode_response_header, read_header
from rustlog.wire.kafka.schema import Unreadable
from tests.unit.wire.kafka.kio_bytes import kio_encode


class HeaderTests(SynchronousTestCase):
    def test_as_kio_writes_them(self) -> None:
        """Headers of both versions are written as they should be, and read back."""
        for client_id in (None, "", "me"):
            fields = {
                "request_api_key": 3,
                "request_api_version": 9,
                "correlation_id": 77,
                "client_id": client_id,
            }
            for header, is_flexible in ((HeaderV1(**fields), False), (HeaderV2(**fields), True)):
                data = encode_header(3, 9, 77, client_id, is_flexible)
                self.assertEqual(data, kio_encode(header))
                read = read_header(data + b"body")
                self.assertEqual((read.key, read.version, read.correlation_id), (3, 9, 77))
                self.assertEqual(read.client_id, (client_id or "").encode())
                begins = read.body_begins(data + b"body", is_flexible)
                self.assertEqual((data + b"body")[begins:], b"body")

    def test_tags(self) -> None:
        """What else a header says is skipped."""
        data = encode_header(3, 9, 77, "me", False) + b"\x01\x05\x03abc" + b"body"
        header = read_header(data)
        self.assertEqual(data[header.body_begins(data, True) :], b"body")

    def test_no_header(self) -> None:
        """Too few bytes are none."""
        data = encode_header(3, 9, 77, "me", False)
        for end in range(len(data)):
            self.assertRaises(Unreadable, read_header, data[:end])

    def test_responses(self) -> None:
        """They begin with what the request was called."""
        self.assertEqual(encode_response_header(77, False), b"\0\0\0M")
        self.assertEqual(encode_response_header(77, True), b"\0\0\0M\0")
