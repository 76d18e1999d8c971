"""
Records for the tests of the decoder and the encoder, and the ways in which those work.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.log.codecs import Codec
from rustlog.log.records import build
from rustlog.model import Record
from rustlog.spark import chains, native
from rustlog.spark.columns import COLUMNS, SCHEMA
from rustlog.spark.decoding import decode

NOW = 1_700_000_000_000

_contents = st.none() | st.binary(max_size=40) | st.just(b"x" * 70) | st.just(b"y" * 8200)
records = st.builds(
    Record,
    value=_contents,
    key=_contents,
    headers=st.lists(st.tuples(st.text(max_size=8), _contents), max_size=3).map(tuple),
    timestamp=st.integers(0, 2**63 // 1000 - 1) | st.integers(NOW, NOW + 100),
)
logs = st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=5)
"""Batches of records."""


@cache
def compiled() -> native.Native | None:
    """The C decoder, where there is a compiler."""
    place = Path(mkdtemp())
    try:
        return native.Native(native.compile_library(place / "native.so"))
    except native.NotCompiled:
        return None
    finally:
        shutil.rmtree(place)


class EveryWay(SynchronousTestCase):
    """Tests that hold for numpy in lockstep, for the plain loop, and for C."""

    def ways(self) -> list[str]:
        """Their names; C is left out where there is no compiler."""
        return ["lockstep", "loop"] + ["c"] * (compiled() is not None)

    def go(self, way: str) -> None:
        """From now on it is done in this way, until the end of the test."""
        self.patch(native, "load", lambda: compiled() if way == "c" else None)
        self.patch(chains, "LOCKSTEP_BATCHES_MIN", 1 if way == "lockstep" else 10**9)


def log_of(batches: list[list[Record]], codec: Codec = Codec.NONE, base_offset: int = 0) -> bytes:
    """What a broker would have in its file."""
    parts = []
    for each in batches:
        batch = build(each, now_ms=NOW, codec=codec).at(base_offset, 0)
        parts.append(bytes(batch.buffer))
        base_offset = batch.next_offset
    return b"".join(parts)


def numbered(batches: list[list[Record]], base_offset: int = 0) -> list[Record]:
    """The same records with the offsets that they have there."""
    flat = [record for batch in batches for record in batch]
    return [
        Record(each.value, each.key, each.headers, NOW if each.timestamp == -1 else each.timestamp, offset)
        for offset, each in enumerate(flat, base_offset)
    ]


def decoded(log: bytes, columns: tuple[str, ...] = COLUMNS, **more: Any) -> pa.Table:
    """All of it as one table, which is checked for what Arrow takes for granted."""
    found = list(decode(log, topic="orders", partition=3, columns=columns, **more))
    for each in found:
        each.validate(full=True)
    return pa.Table.from_batches(found, pa.schema([SCHEMA.field(name) for name in columns]))


def as_records(table: pa.Table) -> list[Record]:
    """Rows with all columns."""
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        Record(
            row["value"],
            row["key"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
            time // 1000,
            row["offset"],
        )
        for row, time in zip(table.drop_columns(["timestamp"]).to_pylist(), times, strict=True)
    ]


def as_rows(sent: list[Record]) -> pa.RecordBatch:
    """The reverse."""
    headers = [[{"key": key, "value": value} for key, value in each.headers] or None for each in sent]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([each.key for each in sent], pa.binary()),
            "value": pa.array([each.value for each in sent], pa.binary()),
            "headers": pa.array(headers, SCHEMA.field("headers").type),
            "timestamp": pa.array([each.timestamp for each in sent], pa.int64()),
        }
    )
