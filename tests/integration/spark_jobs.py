"""
Programs for Spark that the tests run in processes of their own, to be killed, or to live in a poorer place.

    python -m tests.integration.spark_jobs copy SERVERS CHECKPOINT OFFSETS_PER_BATCH
    python -m tests.integration.spark_jobs count SERVERS TOPIC
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from rustlog.spark.session import open_session

CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}


def session(master: str = "local[2]") -> SparkSession:
    """A small one."""
    return open_session(master, CONF, level="off")


def copy(servers: str, checkpoint: str, offsets: str) -> None:
    """Copy the topic C{in} to C{out}, so many offsets at a time, and end."""
    # A task may fail: a worker is killed now and then.
    spark = session("local[2,3]")
    rows = (
        spark.readStream.format("rustlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", offsets)
        .option("minPartitions", "3")
        .load()
    )
    query = (
        # The shuffle makes it possible that a batch that is done again has its rows in another order.
        rows.select("key", "value").repartition(2)
        .writeStream.format("rustlog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "out")
        .option("kafka.batch.size", "4000")
        .option("compression", "lz4")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    query.awaitTermination()


def count(servers: str, topic: str) -> None:
    """Count the records of a topic, and say which Java has done it."""
    spark = session()
    rows = (
        spark.read.format("rustlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .load()
    )
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")  # type: ignore[union-attr]
    print(rows.count(), java)


if __name__ == "__main__":
    {"copy": copy, "count": count}[sys.argv[1]](*sys.argv[2:])
