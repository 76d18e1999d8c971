"""Tests for the reference page of the protocol: its tables are those of the code."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import OffsetOutOfRange, RustlogError
from rustlog.log.records import DECOMPRESSED_BYTES_MAX
from rustlog.model import TopicPartition
from rustlog.wire.fluvio.apis import markdown_table
from rustlog.wire.fluvio.batches import RECORDS_MAX
from rustlog.wire.fluvio.errors import _CODES, _FACTS, NAMES, code_for
from rustlog.wire.fluvio.primitives import ITEMS_MAX, STRING_BYTES_MAX
from tests.unit.test_docs import page, rows

EXAMPLES: dict[str, Any] = {"int": 0, "str": "x", "TopicPartition": TopicPartition("t", 0)}


def example(kind: type[RustlogError]) -> RustlogError:
    """One of that kind."""
    fields = attrs.fields(kind) if attrs.has(kind) else ()
    return kind(*(EXAMPLES[str(each.type)] for each in fields))


class PageTests(SynchronousTestCase):
    text = page("docs/reference/fluvio-protocol.md")

    def test_apis(self) -> None:
        """The table of requests is the one that the code makes of itself."""
        self.assertIn(f"\n{markdown_table()}", self.text)

    def test_limits(self) -> None:
        """The numbers are those of the code."""
        limits = rows(self.text, "Requests and versions")
        self.assertEqual(limits["Items in the collections of one request"], [f"{ITEMS_MAX:,}"])
        self.assertEqual(limits["Records in one batch that is produced"], [f"{RECORDS_MAX:,}"])
        self.assertEqual(limits["A batch when it is decompressed"], [f"{DECOMPRESSED_BYTES_MAX:,} bytes"])
        self.assertEqual(limits["A text in a message"], [f"{STRING_BYTES_MAX:,} bytes"])

    def test_codes(self) -> None:
        """All codes are there by their names, and those that have facts say so."""
        table = rows(self.text, "Error codes")
        del table["Code"]
        self.assertEqual({int(number): cells[0] for number, cells in table.items()}, NAMES)
        self.assertEqual({int(number) for number, cells in table.items() if cells[1].strip()}, set(_FACTS))

    def test_errors(self) -> None:
        """Each error stands beside its code, and nowhere else."""
        table = rows(self.text, "Error codes")
        del table["Code"]
        told = {(kind.__name__, code_for(example(kind)).number) for kind in _CODES}
        told.add(("OffsetOutOfRange", code_for(OffsetOutOfRange(0, 5, 9)).number))
        written = {
            (name.strip(" `"), int(number))
            for number, cells in table.items()
            for name in cells[2].split(",")
            if name.strip()
        }
        self.assertEqual(written, told)
