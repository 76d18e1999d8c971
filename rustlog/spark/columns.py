"""
The columns of a log: names and types are those of Spark's own Kafka source.

    ==============  =====================================  ===========================================
    column          Arrow                                  note
    ==============  =====================================  ===========================================
    key             binary                                 null if there is none
    value           binary                                 null for a tombstone
    topic           string
    partition       int32
    offset          int64
    timestamp       timestamp[us, UTC]                     milliseconds in the log
    timestampType   int32                                  0: the producer's, 1: the broker's
    headers         list<struct<key: string,               null where a record has none
                    value: binary>>
    ==============  =====================================  ===========================================

Any of them can be left out, and what is left out is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rustlog.spark.errors import BadOption

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(HEADER)),
    ]
)
"""All of them, in the order in which Spark has them."""

COLUMNS: tuple[str, ...] = tuple(SCHEMA.names)
DEFAULT_COLUMNS: tuple[str, ...] = COLUMNS[:-1]
"""Headers are only for those who ask for them, as in Spark's own source (C{includeHeaders})."""

DDL = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}
"""What Spark calls the types."""


def schema_of(columns: Sequence[str] = DEFAULT_COLUMNS) -> pa.Schema:
    """
    The Arrow schema of some columns, in that order.

    @raise BadOption: there is no such column, or one is named twice.
    """
    for name in columns:
        if name not in COLUMNS:
            raise BadOption("columns", f"there is no column {name!r}; there are {', '.join(COLUMNS)}")
    if len(set(columns)) < len(columns):
        raise BadOption("columns", "one of them is named twice")
    return pa.schema([SCHEMA.field(name) for name in columns])


def ddl_of(columns: Sequence[str] = DEFAULT_COLUMNS) -> str:
    """The same, as Spark's text: C{"key binary, value binary, …"}."""
    return ", ".join(f"{field.name} {DDL[field.name]}" for field in schema_of(columns))
