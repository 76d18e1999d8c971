"""
A partition as the controller of Fluvio knows it: what it shall be (spec) and what it is (status).

::

    spec    => leader_spu:i32 [replica_spu:i32] Option<cleanup policy> Option<storage> (both from 4 on)
               compression:u8 (from 6 on) Option<deduplication> (from 12 on) system:bool (from 13 on)
               Option<partition mirror> (from 14 on)
    status  => resolution:u8 leader:replica lsr:u32 [replica] size:i64 (from 5 on) is_being_deleted:bool
               base_offset:i64 (from 16 on)
    replica => spu:i32 high_watermark:i64 log_end_offset:i64

Its name is that of the topic, a dash and its index: clients cut at the last dash.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

from attrs import frozen

from rustlog.wire.fluvio.primitives import I32, I64, U8, U32, Reader, Writer
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
    write_optional_mirror,
    write_storage,
)

_STORES, _HAS_SIZE, _COMPRESSES, _DEDUPLICATES, _HAS_SYSTEM, _MIRRORS, _HAS_BASE = 4, 5, 6, 12, 13, 14, 16

_REPLICA = Struct(">iqq")


@frozen
class PartitionSpec:
    """What a partition shall be."""

    leader: int
    replicas: tuple[int, ...] = ()
    retention_seconds: int | None = None
    storage: Storage | None = None
    compression: Compression = Compression.ANY
    deduplication: Deduplication | None = None
    system: bool = False
    mirror: PartitionMirror | None = None


@frozen
class ReplicaStatus:
    """How far a unit has come; -1 where that is not known."""

    spu: int
    high_watermark: int = -1
    log_end_offset: int = -1


class PartitionResolution(IntEnum):
    """Whether it can be used; the last one is there from version 19 on."""

    OFFLINE = 0
    ONLINE = 1
    LEADER_OFFLINE = 2
    ELECTION_LEADER_FOUND = 3
    OUT_OF_STORAGE = 4


@frozen
class PartitionStatus:
    """What a partition is."""

    leader: ReplicaStatus
    resolution: PartitionResolution = PartitionResolution.ONLINE
    lsr: int = 0
    replicas: tuple[ReplicaStatus, ...] = ()
    size: int = 0
    is_being_deleted: bool = False
    base_offset: int = 0


def partition_name(topic: str, index: int) -> str:
    """How it is called among the objects."""
    return f"{topic}-{index}"


# -- spec ------------------------------------------------------------------------------


def read_partition_spec(reader: Reader, version: int) -> PartitionSpec:
    return PartitionSpec(
        reader.number(I32),
        reader.numbers(I32),
        reader.option(lambda: read_cleanup_policy(reader)) if version >= _STORES else None,
        reader.option(lambda: read_storage(reader)) if version >= _STORES else None,
        read_compression(reader) if version >= _COMPRESSES else Compression.ANY,
        reader.option(lambda: read_deduplication(reader)) if version >= _DEDUPLICATES else None,
        version >= _HAS_SYSTEM and reader.boolean(),
        reader.option(lambda: read_mirror(reader, version)) if version >= _MIRRORS else None,
    )


def write_partition_spec(writer: Writer, version: int, spec: PartitionSpec) -> None:
    writer.pack(I32, spec.leader)
    writer.numbers(I32, spec.replicas)
    if version >= _STORES:
        writer.option(spec.retention_seconds, lambda value: write_cleanup_policy(writer, value))
        writer.option(spec.storage, lambda value: write_storage(writer, value))
    if version >= _COMPRESSES:
        writer.pack(U8, spec.compression)
    if version >= _DEDUPLICATES:
        writer.option(spec.deduplication, lambda value: write_deduplication(writer, value))
    if version >= _HAS_SYSTEM:
        writer.boolean(spec.system)
    if version >= _MIRRORS:
        write_optional_mirror(writer, version, spec.mirror)


# -- status ----------------------------------------------------------------------------


def read_partition_status(reader: Reader, version: int) -> PartitionStatus:
    resolution = PartitionResolution(reader.number(U8))
    leader = ReplicaStatus(*reader.unpack(_REPLICA))
    lsr = reader.number(U32)
    replicas = reader.vector(lambda: ReplicaStatus(*reader.unpack(_REPLICA)))
    size = reader.number(I64) if version >= _HAS_SIZE else 0
    is_being_deleted = reader.boolean()
    base_offset = reader.number(I64) if version >= _HAS_BASE else 0
    return PartitionStatus(leader, resolution, lsr, replicas, size, is_being_deleted, base_offset)


def write_partition_status(writer: Writer, version: int, status: PartitionStatus) -> None:
    def write_replica(each: ReplicaStatus) -> None:
        writer.pack(_REPLICA, each.spu, each.high_watermark, each.log_end_offset)

    writer.pack(U8, status.resolution)
    write_replica(status.leader)
    writer.pack(U32, status.lsr)
    writer.vector(status.replicas, write_replica)
    if version >= _HAS_SIZE:
        writer.pack(I64, status.size)
    writer.boolean(status.is_being_deleted)
    if version >= _HAS_BASE:
        writer.pack(I64, status.base_offset)
