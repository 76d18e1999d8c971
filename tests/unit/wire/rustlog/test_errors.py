"""Tests for L{rustlog.wire.rustlog.errors}."""

from __future__ import annotations

import inspect

import attrs
from twisted.trial.unittest import SynchronousTestCase

from rustlog import errors
from rustlog.errors import (
    OffsetOutOfRange,
    PartitionNotFound,
    RequestRefused,
    RustlogError,
    StartupError,
    StorageFailed,
    TryAgain,
)
from rustlog.wire.rustlog.errors import _SENTENCES, message_for

GROUPS = {RustlogError, RequestRefused, TryAgain, StorageFailed, StartupError}


class MessageTests(SynchronousTestCase):
    def test_table_is_complete(self) -> None:
        """Each error that a request can meet has its sentence."""
        known = {
            each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, RustlogError)
        }
        self.assertEqual(set(_SENTENCES), known - GROUPS)

    def test_every_sentence_can_be_said(self) -> None:
        """No sentence asks for what its error does not have."""
        for each in _SENTENCES:
            fields = attrs.fields(each) if attrs.has(each) else ()
            message = message_for(each(*[f"<{field.name}>" for field in fields]))
            self.assertNotIn("{", message)

    def test_sentences_of_the_specification(self) -> None:
        """Clients find the words that the specification promises."""
        self.assertEqual(
            message_for(PartitionNotFound("orders", 99)), "partition not found: topic=orders, partition=99"
        )
        self.assertEqual(
            message_for(OffsetOutOfRange(3, 10, 20)), "offset out of range: 3 is not within 10..20"
        )

    def test_text_of_clients_is_not_a_template(self) -> None:
        """Braces in a name are just braces."""
        self.assertEqual(
            message_for(PartitionNotFound("{0.__class__}", 1)),
            "partition not found: topic={0.__class__}, partition=1",
        )

    def test_errors_of_plugins(self) -> None:
        """An error that is not in the table speaks for itself."""

        class Melted(StorageFailed):
            def __str__(self) -> str:
                return "the disk has melted"

        self.assertEqual(message_for(Melted()), "the disk has melted")
