"""
C{rustlog pipeline compact}: the last value of each key, into a new topic or a table.

Of the records of a key in one partition, the one with the highest offset is the last; of those in several
partitions, the youngest of these.  A key whose last value is null (a tombstone) is left out, and so are
records without a key.

Workers throw away what is not the last of its key within a few thousand records; Spark does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from rustlog.environment.files import RealFiles
from rustlog.spark.columns import COLUMNS, ddl_of
from rustlog.spark.jobs.copying import CopyOptions, CopyPlan, begin_copy, sender
from rustlog.spark.jobs.delivery import Delivered
from rustlog.spark.jobs.frames import frame
from rustlog.spark.jobs.routing import TARGET, Assign, send_all
from rustlog.spark.jobs.running import Advance, Cluster
from rustlog.spark.jobs.states import JobState, write_state
from rustlog.spark.jobs.tables import TableOptions, TableSummary, write_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def last_of_each(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Of rows in the order of a log, the last of each key; none without a key."""
    keys = pc.dictionary_encode(rows.column("key"))
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    numbered = pa.table({"key": keys.indices, "row": pa.array(range(rows.num_rows), pa.int64())})
    present = numbered.filter(pc.is_valid(numbered["key"]))
    last = present.group_by("key").aggregate([("row", "max")])["row_max"]
    chosen = pc.take(last, pc.sort_indices(last)).combine_chunks()
    return rows.take(chosen)


def compacted(spark: SparkSession, plan: CopyPlan, parts: int) -> DataFrame:
    """The records that are left, with all their columns."""
    from pyspark.sql import functions as f

    rows = frame(spark, plan.pieces, dict.fromkeys(range(len(plan.pieces)), -1), last_of_each)
    others = [name for name in COLUMNS if name not in ("key", "partition")]
    by_partition = (
        rows.repartition(parts, "key")
        .groupBy("key", "partition")
        .agg(f.max_by(f.struct(*others), f.col("offset")).alias("last"))
    )
    by_key = by_partition.groupBy("key").agg(
        f.max_by(f.struct("partition", "last"), f.struct("last.timestamp", "partition")).alias("found")
    )
    columns = [
        f.col("key"),
        f.col("found.partition").alias("partition"),
        *(f.col(f"found.last.{name}").alias(name) for name in others),
    ]
    return by_key.select(*columns).where("value is not null").select(*COLUMNS)


# -- into a topic ----------------------------------------------------------------------


def begin_compact(options: CopyOptions, plan: CopyPlan) -> tuple[JobState, CopyPlan]:
    """See L{begin_copy}."""
    asked = {
        "source": f"{plan.source}/{options.topic}",
        "target": options.target,
        "partitions": str(options.partitions or "as they are"),
    }
    return begin_copy("compact", options, plan, asked)


@frozen
class Stay:
    """Adds the column L{TARGET}: records stay in their partitions, where keys are looked for."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            yield rows.append_column(TARGET, rows.column("partition"))


def compact_to_topic(
    cluster: Cluster,
    options: CopyOptions,
    plan: CopyPlan,
    state: JobState,
    now_ms: int,
    advance: Advance = id,
) -> list[Delivered]:
    """Send what is left, in the order of the source; C{advance} hears of records."""
    count = len(state.begins[options.target])
    assign = Stay() if count == len(plan.extents) else Assign(count)
    spark, parts = cluster.session, _parts(cluster)

    def rows() -> DataFrame:
        return compacted(spark, plan, parts).mapInArrow(assign, f"{ddl_of(COLUMNS)}, {TARGET} int")

    send = sender(options, state, now_ms)
    sent = send_all(cluster, "compact", rows, ("partition", "offset"), send, advance)
    write_state(RealFiles(), PurePath(options.state), state.finished())
    return sent


# -- into a table ----------------------------------------------------------------------


def compact_to_table(cluster: Cluster, plan: CopyPlan, options: TableOptions) -> TableSummary:
    """Write what is left as Parquet or Delta; readers see all of it or nothing."""
    spark, parts = cluster.session, _parts(cluster)
    return write_table(cluster, lambda: compacted(spark, plan, parts), options)


def _parts(cluster: Cluster) -> int:
    return max(1, cluster.parallelism * 2)
