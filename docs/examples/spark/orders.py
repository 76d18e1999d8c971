"""
The orders of a tea house, with Spark.

    twistd -n rustlog                                     # a broker, in another window
    python docs/examples/spark/orders.py localhost:9092

Orders are written to the topic C{orders} and read again, at once and as they come; what was sold in each ten
minutes is written to the topic C{sales}, where every client of Kafka finds it.
"""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import rustlog.spark
from rustlog.spark.session import open_session

MORNING = [
    ("table 4", "2025-05-01 09:01:00", "green tea", 3),
    ("table 7", "2025-05-01 09:04:00", "black tea", 4),
    ("table 4", "2025-05-01 09:12:00", "cake", 5),
]
NOON = [
    ("table 1", "2025-05-01 09:13:00", "green tea", 3),
    ("table 2", "2025-05-01 12:00:00", "soup", 9),
]


def log(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """All that a topic has now."""
    return (
        spark.read.format("rustlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .load()
    )


def place(spark: SparkSession, servers: str, orders: list[tuple[str, str, str, int]]) -> None:
    """Write orders: the table is the key, so that the orders of a table stay in order."""
    rows = spark.createDataFrame(orders, "place string, at string, item string, price int")
    (
        rows.select(f.col("place").alias("key"), f.to_json(f.struct("at", "item", "price")).alias("value"))
        .write.format("rustlog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "orders")
        .mode("append")
        .save()
    )


def parsed(records: DataFrame) -> DataFrame:
    """Orders as columns again: a log has keys and values, both of them bytes."""
    order = f.from_json(f.col("value").cast("string"), "at timestamp, item string, price int")
    return records.select(f.col("key").cast("string").alias("place"), order.alias("order")).select(
        "place", "order.*"
    )


def sell(spark: SparkSession, servers: str, checkpoint: str) -> int:
    """
    Work on the orders that have come since the last time, and end; how many these were.

    The checkpoint knows how far we were, and what each ten minutes had until then.  Their sales are written
    when an order is an hour younger: nobody is that late.
    """
    orders = (
        spark.readStream.format("rustlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("groupId", "tea-house-sales")
        .load()
    )
    sales = (
        parsed(orders)
        .withWatermark("at", "1 hour")
        .groupBy(f.window("at", "10 minutes"))
        .agg(f.sum("price").alias("sold"), f.count("*").alias("orders"))
    )
    query = (
        sales.select(
            f.date_format("window.start", "HH:mm").alias("key"),
            f.to_json(f.struct("sold", "orders")).alias("value"),
        )
        .writeStream.format("rustlog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "sales")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(each.numInputRows for each in query.recentProgress)


def main(spark: SparkSession, servers: str, checkpoint: str) -> None:
    """The whole day."""
    rustlog.spark.register(spark)

    place(spark, servers, MORNING)
    orders = parsed(log(spark, servers, "orders"))
    orders.groupBy("place").agg(f.sum("price").alias("spent")).orderBy("place").show()

    print("in the morning:", sell(spark, servers, checkpoint), "orders")
    place(spark, servers, NOON)
    print("since then:", sell(spark, servers, checkpoint), "orders")

    sales = log(spark, servers, "sales")
    sales.select(sales.key.cast("string"), sales.value.cast("string"), "timestamp").show(truncate=False)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as checkpoint:
        main(open_session(), sys.argv[1], checkpoint)
