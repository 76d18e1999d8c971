"""
The options of C{format("rustlog")}: their names, what they are for, and what they are when nobody says
anything.

Names and meanings are those of Spark's own Kafka source and sink, so that a job moves from one to the other
by changing one word; what only rustlog has is marked.  Spark compares names without regard to case.

Options that begin with C{kafka.} are settings of a Kafka client.  Some of them mean something here, some mean
nothing to a client that joins no group and keeps no buffers and are accepted and ignored, some are refused
as Spark's source refuses them, and all others are taken for mistakes.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from attrs import frozen

READ = "read"
READ_STREAM = "readStream"
WRITE = "write"
WRITE_STREAM = "writeStream"

READING = (READ, READ_STREAM)
WRITING = (WRITE, WRITE_STREAM)
EVERYWHERE = (*READING, *WRITING)


@frozen
class Option:
    """
    @ivar uses: the methods of Spark with which it means something.
    @ivar default: as one would write it; empty if there is none.
    @ivar is_ours: whether Spark's Kafka source does not have it.
    """

    name: str
    uses: tuple[str, ...]
    default: str
    meaning: str
    is_ours: bool = False


def _ours(name: str, uses: tuple[str, ...], default: str, meaning: str) -> Option:
    return Option(name, uses, default, meaning, is_ours=True)


OPTIONS = (
    Option("kafka.bootstrap.servers", EVERYWHERE, "", "brokers, `host:port,…`"),
    _ours("path", READING, "", "a data directory: sealed segments are read from there"),
    Option("subscribe", READING, "", "topics, separated by commas"),
    Option("subscribePattern", READING, "", "a regular expression that whole names of topics match"),
    Option("assign", READING, "", 'partitions, `{"orders":[0,1]}`'),
    Option(
        "startingOffsets", READING, "`earliest`; for streams `latest`",
        '`earliest`, `latest`, or `{"orders":{"0":23,"1":-2}}`, where -2 is the earliest and -1 the latest',
    ),
    Option("startingTimestamp", READING, "", "milliseconds since 1970; begin at the first record not older"),
    Option(
        "startingOffsetsByTimestamp", READING, "",
        'the same for each partition, `{"orders":{"0":1700000000000}}`',
    ),
    Option(
        "startingOffsetsByTimestampStrategy", READING, "error",
        "`error` or `latest`: what to do where no record is that young",
    ),
    Option("endingOffsets", (READ,), "latest", "like `startingOffsets`; the record there is not read"),
    Option("endingTimestamp", (READ,), "", "read up to the first record that is not older"),
    Option("endingOffsetsByTimestamp", (READ,), "", "the same for each partition"),
    Option(
        "maxOffsetsPerTrigger", (READ_STREAM,), "",
        "how many offsets a micro-batch has at most, over all partitions",
    ),
    Option("minOffsetsPerTrigger", (READ_STREAM,), "", "a micro-batch waits until there are so many"),
    Option("maxTriggerDelay", (READ_STREAM,), "15m", "but not longer than this: `30s`, `5m`, `1h`"),
    Option("minPartitions", READING, "", "into how many tasks the work is split at least, if it can be"),
    Option("maxRecordsPerPartition", READING, "", "how many offsets a task has at most"),
    Option("failOnDataLoss", READING, "true", "whether offsets that are gone are an error, or skipped"),
    Option("includeHeaders", EVERYWHERE, "false", "whether a column `headers` is read; it is always written"),
    _ours("groupId", (READ_STREAM,), "", "a consumer group to which progress is committed, to be seen"),
    _ours(
        "pushFilters", (READ,), "false",
        "whether filters reach the source; needs `spark.sql.python.filterPushdown.enabled`",
    ),
    Option("topic", WRITING, "", "where rows go; without it, a column `topic` says so for each"),
    _ours("includeTimestamp", WRITING, "false", "whether a column `timestamp` is written as the time"),
    _ours("compression", WRITING, "none", "`none`, `gzip`, `snappy`, `lz4` or `zstd`"),
    _ours("delivery", (WRITE_STREAM,), "exactly-once", "`exactly-once` or `at-least-once`"),
    _ours("applicationId", WRITING, "the query's id", "who writes: each of its batches is written once"),
    _ours("batchId", (WRITE,), "", "which of the application's batches this is, for `foreachBatch`"),
    _ours(
        "stagingLocation", WRITING, "`rustlog-staging` in `checkpointLocation`",
        "a directory that driver and workers share, for batches that are not published yet",
    ),
    Option("checkpointLocation", (READ_STREAM, WRITE_STREAM), "", "Spark's own"),
)  # fmt: skip
"""All of them that have no C{kafka.} before them, and the one without which nothing goes."""

WITHOUT_EFFECT = (
    "groupIdPrefix",
    "kafka.group.id",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "queryName",
)
"""Options of Spark and its Kafka source that are accepted, and for which there is nothing to do here."""


@frozen
class ClientSetting:
    """
    A setting of a Kafka client, without its C{kafka.}.

    @ivar is_for_client: whether it is the connection that needs to know.
    """

    name: str
    uses: tuple[str, ...]
    default: str
    meaning: str
    is_for_client: bool = False


def _for_client(name: str, default: str, meaning: str) -> ClientSetting:
    return ClientSetting(name, EVERYWHERE, default, meaning, is_for_client=True)


CLIENT_SETTINGS = (
    _for_client("client.id", "rustlog-spark", "what brokers call this client in their logs"),
    _for_client("request.timeout.ms", "30000", "how long an answer may take"),
    _for_client("default.api.timeout.ms", "60000", "how long anything is tried again"),
    _for_client("retry.backoff.ms", "100", "how long to wait before the second attempt"),
    _for_client("security.protocol", "PLAINTEXT", "or `SSL`"),
    _for_client("ssl.truststore.location", "the system's", "PEM file of certificates to trust"),
    _for_client("ssl.ca.location", "the system's", "the same, as librdkafka calls it"),
    _for_client("ssl.keystore.location", "", "PEM file of the client's own certificate"),
    _for_client("ssl.certificate.location", "", "the same, as librdkafka calls it"),
    _for_client("ssl.key.location", "", "PEM file of its key, unless that is in the file above"),
    _for_client("ssl.key.password", "", "of that key"),
    _for_client(
        "ssl.endpoint.identification.algorithm", "https",
        "empty: the name in the broker's certificate is not compared",
    ),
    ClientSetting("max.partition.fetch.bytes", READING, "8388608", "how much one fetch asks for"),
    ClientSetting("isolation.level", READING, "read_uncommitted", "or `read_committed`"),
    ClientSetting("compression.type", WRITING, "none", "as `compression`"),
    ClientSetting("batch.size", WRITING, "262144", "how many bytes of records are put into one batch"),
    ClientSetting("acks", WRITING, "all", "nothing else: a row that may get lost is none that was written"),
    ClientSetting("enable.idempotence", WRITING, "true", "nothing else"),
)  # fmt: skip
"""Those that mean something."""

CLIENT_SETTINGS_WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics", "auto.commit.interval.ms", "buffer.memory", "check.crcs",
        "client.dns.lookup", "client.rack", "connections.max.idle.ms", "delivery.timeout.ms",
        "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "heartbeat.interval.ms",
        "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.poll.interval.ms",
        "max.poll.records", "max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms",
        "partition.assignment.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms",
        "reconnect.backoff.ms", "retries", "retry.backoff.max.ms", "send.buffer.bytes",
        "session.timeout.ms", "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)  # fmt: skip
"""Those that are about buffers, groups or habits of the Java client: harmless, and ignored."""

CLIENT_SETTINGS_REFUSED = {
    "auto.offset.reset": "say startingOffsets instead; Spark itself keeps track of offsets",
    "key.deserializer": "keys are always bytes; cast the column",
    "value.deserializer": "values are always bytes; cast the column",
    "key.serializer": "keys are bytes or strings; cast the column",
    "value.serializer": "values are bytes or strings; cast the column",
    "enable.auto.commit": "nothing is committed by itself; the option groupId commits progress",
    "interceptor.classes": "there are no interceptors",
    "transactional.id": "writing exactly once needs none; the option applicationId names the writer",
}
"""Those with which Spark's source or sink would not work either."""

PREFIX = "kafka."


def known_names() -> Iterable[str]:
    """Everything that may stand in C{.option(…)}."""
    yield from (each.name for each in OPTIONS)
    yield from WITHOUT_EFFECT
    for names in ((each.name for each in CLIENT_SETTINGS), CLIENT_SETTINGS_WITHOUT_EFFECT):
        yield from (PREFIX + each for each in names)


def spelled(name: str) -> str:
    """An option as it is written here: Spark hands names on in lower case."""
    return _SPELLED.get(name.lower(), name)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question at the end of a sentence, if there is something that is written nearly like it."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


_SPELLED = {each.lower(): each for each in known_names()}
_SPELLED.update((PREFIX + each, PREFIX + each) for each in CLIENT_SETTINGS_REFUSED)
