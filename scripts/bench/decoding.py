#!/usr/bin/env python
"""
How fast record batches become Arrow columns, and columns batches; one core, from memory to memory.

The plain decoder makes one object for each record; numpy and C make columns.  C is measured where
there is a compiler; it is compiled into a temporary directory.  Beside them, Arrow reads the same rows
from Parquet.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from common import MIB, Report, Row, arguments, median_rows

from rustlog.log import records
from rustlog.log.batch import split_batches
from rustlog.log.codecs import Codec
from rustlog.model import Record
from rustlog.spark import native
from rustlog.spark.decoding import ROWS_MAX, decode
from rustlog.spark.encoding import encode
from rustlog.spark.partitioning import Partitioner

NOW = 1_700_000_000_000
SHAPES = {
    "100 B, batches of 64 KiB": (100, 64 * 1024),
    "1 KiB, batches of 64 KiB": (1024, 64 * 1024),
    "100 B, batches of 1 MiB": (100, MIB),
    "100 B, one in a batch": (100, 1),
}


def main(options: argparse.Namespace) -> None:
    report = Report(options.json)
    size = 4 * MIB if options.quick else options.megabytes * MIB
    rounds = 1 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as place:
        ways = {"plain Python": _plain, "numpy": _with(None)}
        compiled = _compiled(Path(place))
        if compiled is not None:
            ways["C"] = _with(compiled)
        for title, (record_bytes, batch_bytes) in SHAPES.items():
            rows = _rows(record_bytes, size if batch_bytes > 1 else size // 8)
            for codec in (Codec.NONE, Codec.LZ4) if batch_bytes == 64 * 1024 else (Codec.NONE,):
                log = _log(rows, batch_bytes, codec)
                named = f"decode, {title}" + (", lz4" if codec else "")
                all_ways = {**ways, "Parquet, snappy": _parquet(log)}
                report.table(named, _measure(all_ways, log, rows.num_rows, rows.nbytes, rounds))
        _report_encoding(report, size, rounds)
    report.end()


# -- decoding ------------------------------------------------------------------------


def _plain(log: bytes) -> int:
    return sum(1 for batch in split_batches(log) for _ in records.decode(batch))


def _with(compiled: native.Native | None) -> Callable[[bytes], int]:
    def run(log: bytes) -> int:
        native.load = lambda: compiled  # type: ignore[assignment]
        return sum(rows.num_rows for rows in decode(log, topic="orders", partition=0))

    return run


def _parquet(log: bytes) -> Callable[[bytes], int]:
    """What Arrow itself does, in one thread, with a file that has the same rows."""
    file = pa.BufferOutputStream()
    table = pa.Table.from_batches(decode(log, topic="orders", partition=0))
    pq.write_table(table, file, compression="snappy")
    content = file.getvalue()

    def run(_: bytes) -> int:
        parts = pq.ParquetFile(pa.BufferReader(content)).iter_batches(ROWS_MAX, use_threads=False)
        return sum(rows.num_rows for rows in parts)

    return run


def _compiled(place: Path) -> native.Native | None:
    try:
        return native.Native(native.compile_library(place / "native.so"))
    except native.NotCompiled:
        return None


def _measure(
    ways: dict[str, Callable[[Any], int]], work: Any, expected: int, size: int, rounds: int
) -> list[Row]:
    """The median for each way; one round before goes to waste, so that memory is there."""
    measured: list[list[Row]] = []
    for _ in range(rounds + 1):
        measured.append([])
        for name, way in ways.items():
            begin = time.perf_counter()
            assert way(work) == expected, name
            seconds = time.perf_counter() - begin
            row = {"": name, "M records/s": expected / seconds / 1e6, "MB/s": size / seconds / 1e6}
            measured[-1].append(row)
    return median_rows(measured[1:], "MB/s")


# -- encoding ------------------------------------------------------------------------


def _report_encoding(report: Report, size: int, rounds: int) -> None:
    for title, record_bytes in (("100 B", 100), ("1 KiB", 1024)):
        rows = _rows(record_bytes, size)
        ways = {"plain Python": _encode_plainly, "columns": _encode, "columns, by partition": _partition}
        report.table(f"encode, {title}", _measure(ways, rows, rows.num_rows, rows.nbytes, rounds))


def _encode_plainly(rows: pa.RecordBatch) -> int:
    step = 4000
    keys, values = rows["key"].to_pylist(), rows["value"].to_pylist()
    for first in range(0, rows.num_rows, step):
        some = zip(values[first : first + step], keys[first : first + step], strict=True)
        records.build([Record(value, key) for value, key in some], now_ms=NOW)
    return rows.num_rows


def _encode(rows: pa.RecordBatch) -> int:
    return sum(each.records for each in encode(rows, now_ms=NOW))


def _partition(rows: pa.RecordBatch) -> int:
    """With the choice of one of eight partitions for each row."""
    chosen = pa.array(Partitioner(8).assign(rows["key"]))
    return sum(_encode(rows.filter(pc.equal(chosen, number))) for number in range(8))


# -- what is decoded and encoded -----------------------------------------------------


def _rows(record_bytes: int, size: int) -> pa.RecordBatch:
    """Keys of nine bytes, and values of chance."""
    number = size // record_bytes
    half = record_bytes // 2
    values = [os.urandom(half) * 2 for _ in range(1000)]  # which shrink to a half
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%08d" % each for each in range(number)], pa.binary()),
            "value": pa.array([values[each % len(values)] for each in range(number)], pa.binary()),
        }
    )


def _log(rows: pa.RecordBatch, batch_bytes: int, codec: Codec) -> bytes:
    """Batches back to back, as in a file."""

    def placed() -> Iterator[bytes]:
        for each in encode(rows, now_ms=NOW, codec=codec, batch_bytes=batch_bytes):
            yield each.row.to_bytes(8, "big") + each.data[8:]

    return b"".join(placed())


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--megabytes", type=int, default=64, help="of records, for each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is taken")


if __name__ == "__main__":
    main(arguments(__doc__, _options))
