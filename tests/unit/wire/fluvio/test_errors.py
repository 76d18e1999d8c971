"""Tests for L{rustlog.wire.fluvio.errors}."""

from __future__ import annotations

import inspect

from twisted.trial.unittest import SynchronousTestCase

from rustlog import errors
from rustlog.errors import (
    OffsetOutOfRange,
    RequestRefused,
    RustlogError,
    StorageFailed,
    TopicNotFound,
    TryAgain,
)
from rustlog.wire.fluvio import errors as codes
from rustlog.wire.fluvio.errors import (
    _CODES,
    _FACTS,
    MESSAGE_CHARACTERS_MAX,
    NAMES,
    ErrorCode,
    Refused,
    code_for,
    message_for,
    other,
    read_error,
    write_error,
)
from rustlog.wire.fluvio.primitives import Reader, Unreadable, Writer, read_whole

GROUPS = {RustlogError, RequestRefused, TryAgain, StorageFailed, errors.StartupError}


def encoded(code: ErrorCode) -> bytes:
    writer = Writer()
    write_error(writer, code)
    return writer.whole()


class CodeTests(SynchronousTestCase):
    def test_facts(self) -> None:
        """What belongs to a code stands behind it."""
        layouts = {
            codes.NONE: "0000",
            codes.UNKNOWN_SERVER_ERROR: "ffff",
            codes.TOPIC_ALREADY_EXISTS: "07d2",
            other("ab"): "0002 0002 6162",
            codes.request_timed_out(1500): "0007 00000000000005dc 00",
            codes.offset_evicted(1, 2): "0047 0000000000000001 0000000000000002",
            codes.partition_full("a", 3): "0048 0001 61 00000003",
            codes.offset_flush_request_error("a"): "0bbb 0001 61",
            codes.smart_module_not_found("a"): "1771 0001 61",
            codes.system_spec_deletion_attempt("a", "b"): "2ee1 0001 61 0001 62",
        }
        for code, data in layouts.items():
            self.assertEqual(encoded(code).hex(), data.replace(" ", ""))
            self.assertEqual(read_whole(Reader(bytes.fromhex(data)), read_error), code)
        self.assertEqual({each.number for each in layouts if each.facts}, set(_FACTS))

    def test_plain_codes(self) -> None:
        """All others are nothing but a number."""
        for number in set(NAMES) - set(_FACTS):
            self.assertEqual(read_whole(Reader(encoded(ErrorCode(number))), read_error), ErrorCode(number))

    def test_unknown(self) -> None:
        """A number that is no code can not be read, as nobody knows what is behind it."""
        with self.assertRaises(Unreadable):
            read_whole(Reader(b"\x00\x05"), read_error)

    def test_missing_facts(self) -> None:
        """A code is not written without its facts."""
        with self.assertRaises(ValueError):
            encoded(ErrorCode(6001))

    def test_names(self) -> None:
        """Codes know what Fluvio calls them."""
        self.assertEqual(codes.STORAGE_ERROR.name, "StorageError")


class TableTests(SynchronousTestCase):
    def test_table_is_complete(self) -> None:
        """Each error that a request can meet has its code."""
        known = {
            each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, RustlogError)
        }
        self.assertEqual(set(_CODES), known - GROUPS)

    def test_offsets(self) -> None:
        """What is gone already is told from what is not there yet."""
        gone = OffsetOutOfRange(3, 10, 20)
        self.assertEqual(code_for(gone), codes.offset_evicted(3, 10))
        self.assertEqual(code_for(OffsetOutOfRange(21, 10, 20)), codes.OFFSET_OUT_OF_RANGE)
        self.assertEqual(message_for(gone), "offset out of range: 3 is not within 10..20")

    def test_sentences(self) -> None:
        """What Fluvio has no code for is said in words."""
        self.assertEqual(code_for(errors.CorruptBatch("oh")), other("corrupt record batch: oh"))

    def test_long_messages(self) -> None:
        """A sentence fits into an answer, whatever it repeats."""
        error = TopicNotFound("x" * 32_767)
        self.assertEqual(len(message_for(error)), MESSAGE_CHARACTERS_MAX)
        self.assertEqual(len(other(str(error)).facts[0]), MESSAGE_CHARACTERS_MAX)

    def test_refusals_of_the_protocol(self) -> None:
        """They bring their code along."""
        error = Refused(codes.smart_module_not_found("filter"), "there are no SmartModules")
        self.assertEqual(code_for(error), codes.smart_module_not_found("filter"))
        self.assertEqual(message_for(error), "there are no SmartModules")

    def test_errors_of_plugins(self) -> None:
        """An error that is not in the table is told by its kind."""
        kinds = {
            RequestRefused: other(""),
            TryAgain: codes.STORAGE_ERROR,
            StorageFailed: codes.STORAGE_ERROR,
            RustlogError: codes.UNKNOWN_SERVER_ERROR,
        }
        for kind, code in kinds.items():
            self.assertEqual(code_for(type("Added", (kind,), {})()), code)

    def test_mistakes(self) -> None:
        """What went wrong inside is not told outside."""
        self.assertEqual(code_for(KeyError("secret")), codes.UNKNOWN_SERVER_ERROR)
        self.assertEqual(message_for(KeyError("secret")), "internal error")
