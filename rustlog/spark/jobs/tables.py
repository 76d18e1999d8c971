"""
Rows of Spark as a table on disk, which is there as a whole or not at all.

B{Parquet}: a directory of files, made beside the one that is wanted and renamed when it is complete.
B{Delta}: files within the table, which belong to it by one transaction; what was in it before is replaced
by the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from rustlog.environment.files import RealFiles
from rustlog.spark.columns import SCHEMA
from rustlog.spark.jobs.archives import DELTA
from rustlog.spark.jobs.delta import package
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.running import Cluster
from rustlog.storage.datadir import make_durable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rustlog.interfaces import IFiles

_UNFINISHED = "unfinished"
_TOLD = "name string, records long, size long"
_TOLD_SCHEMA = pa.schema([("name", pa.string()), ("records", pa.int64()), ("size", pa.int64())])
_ROW_GROUP = 128 * 1024


@frozen(kw_only=True)
class TableOptions:
    """
    @ivar kind: C{parquet} or C{delta}.
    @ivar overwrites: whether what is there may be replaced.
    @ivar run: names this run, and its files.
    """

    path: str
    kind: str
    run: str
    now_ms: int
    overwrites: bool = False


@frozen
class TableSummary:
    """What was written."""

    records: int
    files: int
    size: int


@frozen
class _Told:
    name: str
    records: int
    size: int


@frozen
class _Write:
    """Writes the rows of one partition of Spark to one file, in a worker."""

    directory: str
    run: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name, records = f"part-{self.run}-{_attempt()}.zstd.parquet", 0
        path = PurePath(self.directory, name)
        writer: pq.ParquetWriter | None = None
        for rows in batches:
            if rows.num_rows:
                if writer is None:
                    writer = pq.ParquetWriter(str(path), SCHEMA, compression="zstd")
                writer.write_batch(rows.cast(SCHEMA), row_group_size=_ROW_GROUP)
                records += rows.num_rows
        if writer is not None:
            writer.close()
            yield pa.RecordBatch.from_arrays(
                [pa.array([name]), pa.array([records]), pa.array([_synced_size(path)])], schema=_TOLD_SCHEMA
            )


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()


def _synced_size(path: PurePath) -> int:
    file = RealFiles().open(path)
    try:
        file.sync()
        return file.size
    finally:
        file.close()


def check_table(files: IFiles, options: TableOptions) -> None:
    """
    See whether a table may be written there.

    @raise JobFailed: no.
    """
    root = PurePath(options.path)
    if options.kind == DELTA:
        package()
    if files.exists(root) and files.names(root) and not options.overwrites:
        raise JobFailed(f"{root} is not empty; say --overwrite if it is to be replaced")


def write_table(cluster: Cluster, rows: Callable[[], DataFrame], options: TableOptions) -> TableSummary:
    """
    Write everything; what a run before this one has left behind is removed.

    @param rows: makes them.
    """
    files, root = RealFiles(), PurePath(options.path)
    check_table(files, options)
    _remove_unfinished(files, root)
    staging = root if options.kind == DELTA else _unfinished(root, options.run)
    make_durable(files, staging)
    write = _Write(str(staging), options.run)
    told = cluster.wait("write", lambda: rows().mapInArrow(write, _TOLD).collect())
    found = [_Told(**each.asDict()) for each in told]
    files.sync_directory(staging)
    if options.kind == DELTA:
        _commit(options, found)
    else:
        _put_in_place(files, staging, root, options.run)
    return TableSummary(sum(each.records for each in found), len(found), sum(each.size for each in found))


def _unfinished(root: PurePath, run: str) -> PurePath:
    return root.with_name(f".{root.name}.{_UNFINISHED}-{run}")


def _put_in_place(files: IFiles, staging: PurePath, root: PurePath, run: str) -> None:
    if files.exists(root):
        if files.names(root):
            old = _unfinished(root, f"{run}-old")
            files.rename(root, old)
            files.rename(staging, root)
            _remove(files, old)
        else:
            files.remove_directory(root)
            files.rename(staging, root)
    else:
        files.rename(staging, root)
    files.sync_directory(root.parent)


def _remove_unfinished(files: IFiles, root: PurePath) -> None:
    """What a crash has left.  Two processes that write the same table at a time do not expect to succeed."""
    if files.exists(root.parent):
        for name in files.names(root.parent):
            if name.startswith(f".{root.name}.{_UNFINISHED}-"):
                _remove(files, root.parent / name)


def _remove(files: IFiles, directory: PurePath) -> None:
    for name in files.names(directory):
        try:
            files.unlink(directory / name)
        except IsADirectoryError:
            _remove(files, directory / name)
    files.remove_directory(directory)


def _commit(options: TableOptions, found: Sequence[_Told]) -> None:
    deltalake: Any = package()
    from deltalake.transaction import AddAction

    if not deltalake.DeltaTable.is_deltatable(options.path):
        deltalake.DeltaTable.create(options.path, SCHEMA, mode="ignore")
    table = deltalake.DeltaTable(options.path)
    actions = [
        AddAction(
            each.name,
            each.size,
            {},
            options.now_ms,
            True,
            orjson.dumps({"numRecords": each.records}).decode(),
        )
        for each in found
    ]
    table.create_write_transaction(actions, "overwrite", SCHEMA)
