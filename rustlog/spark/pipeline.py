"""
The jobs of C{rustlog pipeline} as functions, for programs that have a SparkSession:

    from rustlog.spark import pipeline

    source = pipeline.broker("127.0.0.1:9092")
    pipeline.archive(spark, source, "/archive", topics=["orders"])

What they promise is the same as on the command line: whoever calls them again, after whatever has happened,
goes on. What goes wrong is a L{PipelineError <rustlog.spark.errors.PipelineError>} with one sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath
from secrets import token_hex
from typing import TYPE_CHECKING

from rustlog.environment.clocks import SystemWallClock
from rustlog.environment.files import RealFiles
from rustlog.environment.readonly import ReadOnlyFiles
from rustlog.log.codecs import Codec
from rustlog.spark.jobs import archive as archiving
from rustlog.spark.jobs import compact as compacting
from rustlog.spark.jobs import rekey as rekeying
from rustlog.spark.jobs import replay as replaying
from rustlog.spark.jobs import report as reporting
from rustlog.spark.jobs.archive import COMMIT_BYTES, ArchiveOptions
from rustlog.spark.jobs.audit import Audit, plan_audit
from rustlog.spark.jobs.audit import audit as run_audit
from rustlog.spark.jobs.copying import CopyOptions, plan_copy
from rustlog.spark.jobs.delivery import Delivered
from rustlog.spark.jobs.manifests import Total
from rustlog.spark.jobs.rekey import RekeyOptions
from rustlog.spark.jobs.replay import ReplayOptions
from rustlog.spark.jobs.report import ReportOptions
from rustlog.spark.jobs.running import Cluster
from rustlog.spark.jobs.sources import PIECE_BYTES, BrokerSource, DirectorySource, Source
from rustlog.spark.jobs.tables import TableOptions, TableSummary, check_table
from rustlog.spark.jobs.values import Report
from rustlog.spark.settings import ClientSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def broker(bootstrap: str, **settings: str) -> BrokerSource:
    """
    Topics of a broker, or of any Kafka.

    @param bootstrap: C{HOST:PORT} of its Kafka listener.
    @param settings: of the client, with underscores for dots: C{security_protocol="SSL"}.
    """
    return BrokerSource(client_settings(bootstrap, **settings))


def data_directory(path: str) -> DirectorySource:
    """Topics of a data directory, without a broker."""
    return DirectorySource(path)


def client_settings(bootstrap: str, **settings: str) -> ClientSettings:
    """How to reach a broker."""
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    return ClientSettings.from_options({**named, "kafka.bootstrap.servers": bootstrap})


def archive(
    spark: SparkSession,
    source: Source,
    target: str,
    *,
    topics: Collection[str] = (),
    kind: str = "parquet",
    commit_bytes: int = COMMIT_BYTES,
    task_bytes: int = PIECE_BYTES,
    allows_gaps: bool = False,
) -> Total:
    """Archive what is not archived yet; see L{rustlog.spark.jobs.archive}."""
    options = ArchiveOptions(
        target=target,
        kind=kind,
        topics=topics,
        piece_bytes=task_bytes,
        commit_bytes=commit_bytes,
        allows_gaps=allows_gaps,
    )
    running = archiving.begin(source, options, token_hex(8), _now_ms)
    try:
        for _ in running.run(_cluster(spark), running.plan()):
            pass
        return running.total
    finally:
        running.close()


def replay(
    spark: SparkSession,
    archive: str,
    to: ClientSettings,
    *,
    state: str,
    topics: Mapping[str, str] | None = None,
    records_per_second: float | None = None,
    bytes_per_second: float | None = None,
    codec: Codec = Codec.NONE,
    appends: bool = False,
    config: Mapping[str, str] | None = None,
) -> list[Delivered]:
    """
    Send what was archived, as far as it is not there yet; see L{rustlog.spark.jobs.replay}.

    @param state: a file in which the job remembers who it is.
    @param topics: which, and the names of their targets.
    """
    options = ReplayOptions(
        archive=archive,
        settings=to,
        state=state,
        topics=list(topics or ()),
        renamed=topics or {},
        records_per_second=records_per_second,
        bytes_per_second=bytes_per_second,
        codec=codec,
        appends=appends,
        config=config or {},
    )
    plan = replaying.plan_replay(options)
    begun = replaying.begin(options, plan)
    return replaying.replay(_cluster(spark), options, plan, begun, _now_ms())


def audit(spark: SparkSession, directory: str, *, topics: Collection[str] = ()) -> Audit:
    """Verify a data directory; see L{rustlog.spark.jobs.audit}."""
    plan = plan_audit(ReadOnlyFiles(), PurePath(directory), topics)
    return run_audit(_cluster(spark), plan, _now_ms())


def report(
    spark: SparkSession,
    source: Source,
    *,
    topics: Collection[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Report:
    """Count, hour by hour; see L{rustlog.spark.jobs.report}."""
    options = ReportOptions(topics=topics, since_ms=since_ms, until_ms=until_ms)
    return reporting.report(_cluster(spark), options, reporting.plan_report(source, options), _now_ms())


def rekey(
    spark: SparkSession,
    source: Source,
    topic: str,
    to: ClientSettings,
    target: str,
    *,
    state: str,
    key: str | None = None,
    partitions: int | None = None,
    codec: Codec = Codec.NONE,
    appends: bool = False,
    config: Mapping[str, str] | None = None,
) -> list[Delivered]:
    """
    Copy a topic by another key; see L{rustlog.spark.jobs.rekey}.

    @param key: an expression of Spark SQL over the columns.
    @return: nothing, if it was done before.
    """
    options = RekeyOptions(
        topic=topic,
        target=target,
        settings=to,
        state=state,
        partitions=partitions,
        codec=codec,
        appends=appends,
        config=config or {},
        key=key,
    )
    plan = plan_copy(source, topic, target, partitions)
    begun, plan = rekeying.begin_rekey(options, plan)
    if begun.is_finished:
        return []
    return rekeying.rekey(_cluster(spark), options, plan, begun, _now_ms())


def compact(
    spark: SparkSession,
    source: Source,
    topic: str,
    to: ClientSettings,
    target: str,
    *,
    state: str,
    partitions: int | None = None,
    codec: Codec = Codec.NONE,
    appends: bool = False,
    config: Mapping[str, str] | None = None,
) -> list[Delivered]:
    """The last value of each key into another topic; see L{rustlog.spark.jobs.compact}."""
    options = CopyOptions(
        topic=topic,
        target=target,
        settings=to,
        state=state,
        partitions=partitions,
        codec=codec,
        appends=appends,
        config=config or {},
    )
    begun, plan = compacting.begin_compact(options, plan_copy(source, topic, target, partitions))
    if begun.is_finished:
        return []
    return compacting.compact_to_topic(_cluster(spark), options, plan, begun, _now_ms())


def compact_to_table(
    spark: SparkSession,
    source: Source,
    topic: str,
    path: str,
    *,
    kind: str = "parquet",
    overwrites: bool = False,
) -> TableSummary:
    """The last value of each key into a table; see L{rustlog.spark.jobs.compact}."""
    options = TableOptions(path=path, kind=kind, run=token_hex(8), now_ms=_now_ms(), overwrites=overwrites)
    check_table(RealFiles(), options)
    plan = plan_copy(source, topic, None, None)
    return compacting.compact_to_table(_cluster(spark), plan, options)


def _cluster(spark: SparkSession) -> Cluster:
    return Cluster(lambda: spark)


def _now_ms() -> int:
    return SystemWallClock().now_ms()
