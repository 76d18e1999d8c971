"""
C{rustlog pipeline rekey}: a topic into another one, with other keys or another number of partitions.

Records of the same key come out in the order in which they were: within a partition by offset, and between
partitions by time (more exactly, by L{ORDER <rustlog.spark.jobs.frames.ORDER>}).
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from attrs import frozen

from rustlog.environment.files import RealFiles
from rustlog.spark.columns import COLUMNS, ddl_of
from rustlog.spark.jobs.copying import CopyOptions, CopyPlan, begin_copy, sender
from rustlog.spark.jobs.delivery import Delivered
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.frames import ORDER, frame, highest_before
from rustlog.spark.jobs.routing import TARGET, Assign, send_all
from rustlog.spark.jobs.running import Advance, Cluster
from rustlog.spark.jobs.states import JobState, write_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@frozen(kw_only=True)
class RekeyOptions(CopyOptions):
    """
    @ivar key: an expression of Spark SQL over the columns; C{None}: keys stay as they are.
    """

    key: str | None = None


def begin_rekey(options: RekeyOptions, plan: CopyPlan) -> tuple[JobState, CopyPlan]:
    """See L{begin_copy}."""
    asked = {
        "source": f"{plan.source}/{options.topic}",
        "target": options.target,
        "key": options.key or "key",
        "partitions": str(options.partitions or "as they are"),
    }
    return begin_copy("rekey", options, plan, asked)


def rekey(
    cluster: Cluster,
    options: RekeyOptions,
    plan: CopyPlan,
    state: JobState,
    now_ms: int,
    advance: Advance = id,
) -> list[Delivered]:
    """Copy everything that is not there yet; C{advance} hears of records."""
    before = highest_before(cluster, plan.pieces)
    spark = cluster.session

    def assigned() -> DataFrame:
        rows = keyed(frame(spark, plan.pieces, before), options.key)
        count = len(state.begins[options.target])
        return rows.mapInArrow(Assign(count), f"{ddl_of(COLUMNS)}, {ORDER} long, {TARGET} int")

    send = sender(options, state, now_ms)
    sent = send_all(cluster, "rekey", assigned, (ORDER, "partition", "offset"), send, advance)
    write_state(RealFiles(), PurePath(options.state), state.finished())
    return sent


def keyed(rows: DataFrame, key: str | None) -> DataFrame:
    """
    With the new keys.

    @raise JobFailed: the expression makes no sense.
    """
    if key is None:
        return rows
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import expr

    try:
        changed = rows.withColumn("key", expr(key).cast("string").cast("binary"))
        binary = rows.select(expr(key).alias("key")).schema["key"].dataType.typeName() == "binary"
        return rows.withColumn("key", expr(key)) if binary else changed
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise JobFailed(f"the key {key!r} makes no sense to Spark: {first}") from None
