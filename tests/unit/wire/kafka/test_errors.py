"""Tests for L{rustlog.wire.kafka.errors}."""

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
from rustlog.wire.kafka.errors import (
    _CODES,
    MESSAGE_CHARACTERS_MAX,
    ErrorCode,
    Refused,
    code_for,
    message_for,
)

GROUPS = {RustlogError, RequestRefused, TryAgain, StorageFailed, errors.StartupError}


class CodeTests(SynchronousTestCase):
    def test_table_is_complete(self) -> None:
        """Each error that a request can meet has its code."""
        known = {
            each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, RustlogError)
        }
        self.assertEqual(set(_CODES), known - GROUPS)

    def test_errors(self) -> None:
        """Clients are told what they know."""
        error = OffsetOutOfRange(3, 10, 20)
        self.assertIs(code_for(error), ErrorCode.offset_out_of_range)
        self.assertEqual(message_for(error), "offset out of range: 3 is not within 10..20")

    def test_long_messages(self) -> None:
        """A sentence fits into a response, whatever it repeats."""
        self.assertEqual(len(message_for(TopicNotFound("x" * 32_767))), MESSAGE_CHARACTERS_MAX)

    def test_refusals_of_the_protocol(self) -> None:
        """They bring their code along."""
        error = Refused(ErrorCode.invalid_required_acks, "acks is 7")
        self.assertIs(code_for(error), ErrorCode.invalid_required_acks)
        self.assertEqual(message_for(error), "acks is 7")

    def test_errors_of_plugins(self) -> None:
        """An error that is not in the table is told by its kind."""
        kinds = {
            RequestRefused: ErrorCode.invalid_request,
            TryAgain: ErrorCode.kafka_storage_error,
            StorageFailed: ErrorCode.kafka_storage_error,
            RustlogError: ErrorCode.unknown_server_error,
        }
        for kind, code in kinds.items():
            self.assertIs(code_for(type("Added", (kind,), {})()), code)

    def test_mistakes(self) -> None:
        """What went wrong inside is not told outside."""
        self.assertIs(code_for(KeyError("secret")), ErrorCode.unknown_server_error)
        self.assertEqual(message_for(KeyError("secret")), "internal error")
