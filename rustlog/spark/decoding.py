"""
From record batches to Arrow, by columns.

    for rows in decode(fetched.data, topic="orders", partition=0, columns=("offset", "value")):
        ...

No record is touched by itself.  For the batches of a few megabytes at a time, all records are found
(L{rustlog.spark.chains}); then each field of all of them is read at once (L{rustlog.spark.fields}); keys and
values are copied once.  Where the C decoder is at hand (L{rustlog.spark.native}), it does all three.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rustlog.log.batch import Buffer
from rustlog.model import MAX_OFFSET
from rustlog.spark.assembling import Assembly
from rustlog.spark.batches import choose, find_batches
from rustlog.spark.chunks import chunks
from rustlog.spark.columns import DEFAULT_COLUMNS, schema_of
from rustlog.spark.scanning import scan
from rustlog.spark.transactions import Aborted

ROWS_MAX = 32 * 1024
"""So many rows become one Arrow batch: their numbers fit the processor's cache."""


def decode(
    buffer: Buffer,
    *,
    topic: str,
    partition: int,
    from_offset: int = 0,
    to_offset: int = MAX_OFFSET,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    aborted: Aborted = (),
    may_be_cut_off: bool = False,
    rows_max: int = ROWS_MAX,
) -> Iterator[pa.RecordBatch]:
    """
    The records of batches that stand back to back, in the order of the log, as Arrow batches of at most
    C{rows_max} rows.  Every checksum is verified.

    @param from_offset: records before it are left out.
    @param to_offset: this one, and those behind it, too.
    @param columns: of L{rustlog.spark.columns.COLUMNS}; any, in any order.
    @param aborted: transactions whose records nobody should see: (producer id, first offset).
    @param may_be_cut_off: whether the last batch may be incomplete, as in a fetch; it is left out then.
    @raise CorruptLog: from the iterator, when it gets there; with topic, partition and offset.
    @raise NotRepresentable: a time does not fit the column C{timestamp}.
    @raise BadOption: there is no such column.
    """
    schema = schema_of(columns)
    found = find_batches(buffer, topic, partition, may_be_cut_off=may_be_cut_off)
    chosen = choose(found, from_offset=from_offset, to_offset=to_offset, aborted=aborted)
    for chunk in chunks(chosen):
        assembly = Assembly(chunk, schema)
        for owners, fields in scan(chunk, assembly.depth, rows_max):
            rows = assembly.rows(fields, owners, from_offset, to_offset)
            if rows.num_rows:
                yield rows
