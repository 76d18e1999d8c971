"""
Records to Parquet files, in a worker: nothing of what is archived goes through Spark itself.

Files have all columns but C{topic} and C{date}, which their paths have, as is the habit of Hive.  Records
of one file have one date.  Where dates are mixed, so are the files, but only a few are open at a time: one
that is needed again later is begun anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import define, field

from rustlog.spark.columns import SCHEMA
from rustlog.spark.jobs.manifests import ArchivedFile, Chunk, Part

if TYPE_CHECKING:
    from rustlog.interfaces import IFiles

FILE_SCHEMA = pa.schema([each for each in SCHEMA if each.name != "topic"])
TABLE_SCHEMA = SCHEMA.append(pa.field("date", pa.date32()))
"""With the columns that paths have."""

CHUNK_BYTES = 64 * 1024 * 1024
"""About so much, uncompressed, is written at once, and can be read at once."""

OPEN_FILES_MAX = 16
_DAY_US = 24 * 60 * 60 * 1_000_000


@define(eq=False)
class _OpenFile:
    staged: str
    date: str
    writer: pq.ParquetWriter
    first_offset: int
    last_offset: int = -1
    records: int = 0
    groups: int = 0

    def write(self, table: pa.Table) -> int:
        """Write one row group; its number."""
        self.writer.write_table(table.select(FILE_SCHEMA.names), row_group_size=len(table))
        self.last_offset = table["offset"][-1].as_py()
        self.records += len(table)
        self.groups += 1
        return self.groups - 1


@define(eq=False)
class PartWriter:
    """
    What one task archives: a range of one partition.

    @ivar _name: begins the names of all its files; no other task and no other attempt has it.
    """

    _files: IFiles
    _directory: PurePath
    _name: str
    _topic: str
    _partition: int
    _open: dict[str, _OpenFile] = field(factory=dict, init=False)
    _done: list[ArchivedFile] = field(factory=list, init=False)
    _chunks: list[Chunk] = field(factory=list, init=False)
    _count: int = field(default=0, init=False)

    def write(self, table: pa.Table) -> None:
        """The next records, in the order of their offsets."""
        parts = []
        for date, rows in by_date(table):
            file = self._file(date, rows["offset"][0].as_py())
            parts.append((file.staged, file.write(rows)))
        offsets = table["offset"]
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        self._chunks.append(Chunk(self._topic, self._partition, first, last, len(table), tuple(parts)))

    def finish(self, start_offset: int, next_offset: int) -> Part:
        """Everything is on disk."""
        for date in list(self._open):
            self._close(date)
        return Part(
            self._topic, self._partition, start_offset, next_offset, tuple(self._done), tuple(self._chunks)
        )

    def _file(self, date: str, first_offset: int) -> _OpenFile:
        file = self._open.pop(date, None)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._close(next(iter(self._open)))  # The one that was not needed for the longest time.
            file = self._begin(date, first_offset)
        self._open[date] = file
        return file

    def _begin(self, date: str, first_offset: int) -> _OpenFile:
        staged = f"{self._name}-{self._count}.parquet"
        self._count += 1
        writer = pq.ParquetWriter(
            str(self._directory / staged), FILE_SCHEMA, compression="zstd", use_dictionary=["partition"],
            write_statistics=["partition", "offset", "timestamp"],
        )  # fmt: skip
        return _OpenFile(staged, date, writer, first_offset)

    def _close(self, date: str) -> None:
        file = self._open.pop(date)
        file.writer.close()
        written = self._files.open(self._directory / file.staged)
        try:
            # When the manifest names it, it has to survive whatever the manifest survives.
            written.sync()
            size = written.size
        finally:
            written.close()
        self._done.append(
            ArchivedFile(
                file.staged,
                file.staged,
                self._topic,
                self._partition,
                file.date,
                file.records,
                size,
                file.first_offset,
                file.last_offset,
            )
        )


def by_date(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The records of each day, in their order; usually there is one."""
    stamps = pc.fill_null(table["timestamp"].cast(pa.int64()), -1).to_numpy()
    days = stamps // _DAY_US
    if days.min() == days.max():
        yield _date(days[0]), table
        return
    for day in np.unique(days):
        yield _date(day), table.take(pa.array(np.flatnonzero(days == day)))


def _date(day: int) -> str:
    return str(np.datetime64(int(day), "D"))


def chunks(tables: Iterator[pa.Table], size_max: int = CHUNK_BYTES) -> Iterator[pa.Table]:
    """Put small tables together, so that each is about that large."""
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        if len(table):
            waiting.append(table)
            size += table.nbytes
        if size >= size_max:
            yield pa.concat_tables(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def read_chunk(root: PurePath, chunk: Chunk, open_file: Callable[[str], pq.ParquetFile]) -> pa.Table:
    """The records of a chunk, in the order of their offsets."""
    tables = [open_file(str(root / path)).read_row_group(group) for path, group in chunk.parts]
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables).sort_by("offset")
