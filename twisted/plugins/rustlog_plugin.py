"""
What rustlog installs into Twisted's plugin system: declarations only, see L{rustlog.plugins}.
"""

from twisted.application.service import ServiceMaker

from rustlog.plugins import LogStoreFactory, OffsetStoreFactory, WireProtocol

service = ServiceMaker(
    "rustlog",
    "rustlog.tap",
    "A log broker: topics, partitions, consumer groups; stores and protocols are plugins.",
    "rustlog",
)

memory_store = LogStoreFactory(
    "memory",
    "Keeps everything in memory; forgets it when it stops.",
    opener="rustlog.storage.memory.open_store",
    settings="rustlog.storage.memory.MemorySettings",
)

segments_store = LogStoreFactory(
    "segments",
    "Keeps each partition as segment files in the data directory.",
    opener="rustlog.storage.segments.store.open_store",
    settings="rustlog.storage.segments.store.SegmentsSettings",
)

minikafka_store = LogStoreFactory(
    "minikafka",
    "Reads and writes data directories of MiniKafka: single records, without headers.",
    opener="rustlog.storage.minikafka.store.open_store",
    settings="rustlog.storage.minikafka.store.MiniKafkaSettings",
)

memory_offsets = OffsetStoreFactory(
    "memory",
    "Keeps the offsets of consumer groups in memory; forgets them when it stops.",
    opener="rustlog.offsets.memory.open_store",
    settings="rustlog.offsets.memory.MemoryOffsetsSettings",
)

file_offsets = OffsetStoreFactory(
    "file",
    "Keeps the offsets of consumer groups in files of their own in the data directory.",
    opener="rustlog.offsets.file.open_store",
    settings="rustlog.offsets.file.FileOffsetsSettings",
)

topic_offsets = OffsetStoreFactory(
    "topic",
    "Keeps the offsets of consumer groups in a topic of the log store, __consumer_offsets.",
    opener="rustlog.offsets.topic.open_store",
    settings="rustlog.offsets.topic.TopicOffsetsSettings",
)

fluvio_protocol = WireProtocol(
    "fluvio",
    "What clients of Fluvio speak: a whole cluster, unless fluvio-spu has a port of its own.",
    maker="rustlog.wire.fluvio.protocol.make_factory",
    settings="rustlog.wire.fluvio.settings.FluvioSettings",
    default_endpoints=(
        "tcp:9003:backlog=1024:interface=127.0.0.1",
        r"tcp:9003:backlog=1024:interface=\:\:1",
    ),
)

fluvio_unit_protocol = WireProtocol(
    "fluvio-spu",
    "The part of Fluvio's protocol that produces and consumes, on a port of its own.",
    maker="rustlog.wire.fluvio.protocol.make_unit_factory",
    settings="rustlog.wire.fluvio.settings.FluvioSettings",
)

http_protocol = WireProtocol(
    "http",
    "Metrics for Prometheus, health, and what there is, as JSON and as a page.",
    maker="rustlog.wire.http.protocol.make_factory",
    default_endpoints=(
        "tcp:9080:interface=127.0.0.1",
        r"tcp:9080:interface=\:\:1",
    ),
)

kafka_protocol = WireProtocol(
    "kafka",
    "What clients of Apache Kafka speak.",
    maker="rustlog.wire.kafka.protocol.make_factory",
    settings="rustlog.wire.kafka.settings.KafkaSettings",
    default_endpoints=(
        "tcp:9092:backlog=1024:interface=127.0.0.1",
        r"tcp:9092:backlog=1024:interface=\:\:1",
    ),
)

minikafka_protocol = WireProtocol(
    "minikafka",
    "Commands in lines, with payloads as bytes behind them.",
    maker="rustlog.wire.minikafka.protocol.make_factory",
    settings="rustlog.wire.minikafka.settings.MinikafkaSettings",
    default_endpoints=(
        "tcp:9093:backlog=1024:interface=127.0.0.1",
        r"tcp:9093:backlog=1024:interface=\:\:1",
    ),
)

rustlog_protocol = WireProtocol(
    "rustlog",
    "JSON in length-prefixed frames.",
    maker="rustlog.wire.rustlog.protocol.make_factory",
    # Twisted's own backlog is 50: a few hundred clients that come at once would wait for seconds.
    default_endpoints=(
        "tcp:9091:backlog=1024:interface=127.0.0.1",
        r"tcp:9091:backlog=1024:interface=\:\:1",
    ),
)
