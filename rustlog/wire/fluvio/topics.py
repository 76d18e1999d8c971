"""
A topic as the controller of Fluvio knows it: what it shall be (spec) and what it is (status).

::

    spec     => replicas Option<cleanup policy> (from 3 on) Option<storage> (from 4 on)
                compression:u8 (from 6 on) Option<deduplication> (from 12 on) system:bool (from 13 on)
    replicas => 0:u8 [partition:u32 [spu:i32] Option<partition mirror> (from 14 on)]
              | 1:u8 partitions:u32 replication_factor:u32 ignore_rack:bool
              | 2:u8 mirror (from 14 on)
    status   => resolution:u8 {partition:u32 [spu:i32]} {partition:u32 partition mirror} (from 14 on)
                reason:String

What stands in a mirror's place is not read: such topics are not offered, and it is enough to know that one is
asked for.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Union

from attrs import frozen

from rustlog.wire.fluvio.primitives import I32, U8, U32, Reader, Unreadable, Writer
from rustlog.wire.fluvio.replicas import (
    Compression,
    Deduplication,
    PartitionMirror,
    Storage,
    read_cleanup_policy,
    read_compression,
    read_deduplication,
    read_mirror,
    read_storage,
    write_cleanup_policy,
    write_deduplication,
    write_mirror,
    write_optional_mirror,
    write_storage,
)

_CLEANS, _STORES, _COMPRESSES, _DEDUPLICATES, _HAS_SYSTEM, _MIRRORS = 3, 4, 6, 12, 13, 14

_COMPUTED = Struct(">II")


@frozen
class AssignedPartition:
    """A partition, and the units that shall have it."""

    partition: int
    spus: tuple[int, ...]
    mirror: PartitionMirror | None = None


@frozen
class AssignedReplicas:
    """Who creates the topic says where each partition shall be."""

    partitions: tuple[AssignedPartition, ...]


@frozen
class ComputedReplicas:
    """Who creates the topic says how many there shall be."""

    partitions: int
    replication_factor: int = 1
    ignore_rack: bool = False


@frozen
class MirroredReplicas:
    """The topic is to be shared with another cluster; no more of the spec is read."""


Replicas = Union[AssignedReplicas, ComputedReplicas, MirroredReplicas]


@frozen
class TopicSpec:
    """What a topic shall be."""

    replicas: Replicas
    retention_seconds: int | None = None
    storage: Storage | None = None
    compression: Compression = Compression.ANY
    deduplication: Deduplication | None = None
    system: bool = False


class TopicResolution(IntEnum):
    """How far it is from that."""

    INIT = 0
    PENDING = 1
    INSUFFICIENT_RESOURCES = 2
    INVALID_CONFIG = 3
    PROVISIONED = 4
    DELETING = 5


@frozen
class TopicStatus:
    """What a topic is."""

    resolution: TopicResolution = TopicResolution.PROVISIONED
    replica_map: tuple[tuple[int, tuple[int, ...]], ...] = ()
    mirror_map: tuple[tuple[int, PartitionMirror], ...] = ()
    reason: str = ""


# -- spec ------------------------------------------------------------------------------


def read_topic_spec(reader: Reader, version: int) -> TopicSpec:
    replicas = _read_replicas(reader, version)
    if isinstance(replicas, MirroredReplicas):
        reader.rest()
        return TopicSpec(replicas)
    return TopicSpec(
        replicas,
        reader.option(lambda: read_cleanup_policy(reader)) if version >= _CLEANS else None,
        reader.option(lambda: read_storage(reader)) if version >= _STORES else None,
        read_compression(reader) if version >= _COMPRESSES else Compression.ANY,
        reader.option(lambda: read_deduplication(reader)) if version >= _DEDUPLICATES else None,
        version >= _HAS_SYSTEM and reader.boolean(),
    )


def _read_replicas(reader: Reader, version: int) -> Replicas:
    kind = reader.number(U8)
    if kind == 0:
        return AssignedReplicas(reader.vector(lambda: _read_assigned(reader, version)))
    if kind == 1:
        partitions, replication_factor = reader.unpack(_COMPUTED)
        return ComputedReplicas(partitions, replication_factor, reader.boolean())
    if kind == 2 and version >= _MIRRORS:
        return MirroredReplicas()
    raise Unreadable(f"{kind} is not a way to place replicas")


def _read_assigned(reader: Reader, version: int) -> AssignedPartition:
    partition, spus = reader.number(U32), reader.numbers(I32)
    mirror = reader.option(lambda: read_mirror(reader, version)) if version >= _MIRRORS else None
    return AssignedPartition(partition, spus, mirror)


def write_topic_spec(writer: Writer, version: int, spec: TopicSpec) -> None:
    _write_replicas(writer, version, spec.replicas)
    if version >= _CLEANS:
        writer.option(spec.retention_seconds, lambda value: write_cleanup_policy(writer, value))
    if version >= _STORES:
        writer.option(spec.storage, lambda value: write_storage(writer, value))
    if version >= _COMPRESSES:
        writer.pack(U8, spec.compression)
    if version >= _DEDUPLICATES:
        writer.option(spec.deduplication, lambda value: write_deduplication(writer, value))
    if version >= _HAS_SYSTEM:
        writer.boolean(spec.system)


def _write_replicas(writer: Writer, version: int, replicas: Replicas) -> None:
    if isinstance(replicas, AssignedReplicas):
        writer.pack(U8, 0)
        writer.vector(replicas.partitions, lambda each: _write_assigned(writer, version, each))
    elif isinstance(replicas, ComputedReplicas):
        writer.pack(U8, 1)
        writer.pack(_COMPUTED, replicas.partitions, replicas.replication_factor)
        writer.boolean(replicas.ignore_rack)
    else:
        raise ValueError("mirrored topics are not offered")


def _write_assigned(writer: Writer, version: int, assigned: AssignedPartition) -> None:
    writer.pack(U32, assigned.partition)
    writer.numbers(I32, assigned.spus)
    if version >= _MIRRORS:
        write_optional_mirror(writer, version, assigned.mirror)


# -- status ----------------------------------------------------------------------------


def read_topic_status(reader: Reader, version: int) -> TopicStatus:
    resolution = TopicResolution(reader.number(U8))
    replica_map = reader.mapping(lambda: reader.number(U32), lambda: reader.numbers(I32))
    mirror_map = (
        reader.mapping(lambda: reader.number(U32), lambda: read_mirror(reader, version))
        if version >= _MIRRORS
        else ()
    )
    return TopicStatus(resolution, replica_map, mirror_map, reader.string())


def write_topic_status(writer: Writer, version: int, status: TopicStatus) -> None:
    def write_partition(number: int) -> None:
        writer.pack(U32, number)

    writer.pack(U8, status.resolution)
    writer.mapping(status.replica_map, write_partition, lambda spus: writer.numbers(I32, spus))
    if version >= _MIRRORS:
        writer.mapping(
            status.mirror_map, write_partition, lambda mirror: write_mirror(writer, version, mirror)
        )
    writer.string(status.reason)
