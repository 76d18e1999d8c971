"""
L{RustlogDataSource}: what Spark finds behind C{format("rustlog")}.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rustlog.spark.columns import COLUMNS, DDL, DEFAULT_COLUMNS, ddl_of, schema_of
from rustlog.spark.errors import BadOption
from rustlog.spark.options import read_options, write_options
from rustlog.spark.readers import BatchReader, NarrowingBatchReader, StreamReader
from rustlog.spark.rows import check_columns
from rustlog.spark.vocabulary import READ, READ_STREAM, WRITE, WRITE_STREAM, did_you_mean
from rustlog.spark.writers import BatchWriter, StreamWriter

FORMAT = "rustlog"


class RustlogDataSource(DataSource):
    """Makes readers and writers; wrong options are an error here, on the driver."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        wants_headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return ddl_of(COLUMNS if wants_headers else DEFAULT_COLUMNS)

    def reader(self, schema: StructType) -> BatchReader:
        options = read_options(self.options, READ)
        kind = NarrowingBatchReader if options.pushes_filters else BatchReader
        return kind(options, columns_of(schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(read_options(self.options, READ_STREAM), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        _refuse_overwriting(overwrite)
        options = write_options(self.options, WRITE)
        return BatchWriter(options, check_columns(arrow_schema(schema), options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        # A query whose output mode is "complete" says that it overwrites.  As in Kafka's sink, all rows are
        # appended each time.
        options = write_options(self.options, WRITE_STREAM)
        return StreamWriter(options, check_columns(arrow_schema(schema), options))


def columns_of(schema: StructType) -> tuple[str, ...]:
    """
    The columns that C{.schema(…)} asks for: all, or less.

    @raise BadOption: there is no such column, or it has another type.
    """
    wanted = arrow_schema(schema)
    for field in wanted:
        if field.name not in COLUMNS:
            known = did_you_mean(field.name, COLUMNS) or f"; there are {', '.join(COLUMNS)}"
            raise BadOption("schema", f"there is no column {field.name}{known}")
        if field.type != schema_of([field.name]).field(0).type:
            wrong = f"the column {field.name} is {DDL[field.name]}, not {field.type}; cast it"
            raise BadOption("schema", wrong)
    return tuple(wanted.names)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's schema, as the workers see it."""
    return to_arrow_schema(schema, timezone="UTC")


def _refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise BadOption("mode", "a log can not be overwritten, only appended to: say .mode(\"append\")")
