"""
rustlog for Spark: a client over the wire, and a reader of data directories.

It imports neither the broker nor Twisted.  What is needed beside the broker's own dependencies comes with the
extra C{spark}.

The plane below Spark itself, in terms of Arrow and bytes:

    =============================================  ======================================================
    L{columns <rustlog.spark.columns>}             names and types, those of Spark's own Kafka source
    L{decoding <rustlog.spark.decoding>}           record batches to Arrow
    L{encoding <rustlog.spark.encoding>}           Arrow to record batches
    L{partitioning <rustlog.spark.partitioning>}   which partition a key belongs to, by the column
    L{kafka <rustlog.spark.kafka>}                 a blocking client of any Kafka broker
    L{reading <rustlog.spark.reading>}             a range of offsets, from a broker, as Arrow
    L{files <rustlog.spark.files>}                 data directories, without a broker
    L{ranges <rustlog.spark.ranges>}               pieces of files, which can be sent to workers
    L{native <rustlog.spark.native>}               the inner loops of decoding, in C
    =============================================  ======================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """
    Make C{format("rustlog")} known to a session, for reading and writing, batches and streams.
    """
    # Spark is large, and much in this package does without.
    from rustlog.spark.datasource import RustlogDataSource

    spark.dataSource.register(RustlogDataSource)
