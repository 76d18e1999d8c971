"""
What topics and partitions have in common: where replicas are, how long and how much is kept.

::

    cleanup policy   => 0:u8 retention_seconds:u32
    storage          => Option<segment_size:u32> Option<max_partition_size:u64>
    deduplication    => count:u64 Option<age:Duration> uses:String {parameter:String value:String}
    partition mirror => 0:u8 home_cluster:String home_spu_key:String home_spu_id:i32 endpoint:String
                        target:bool (from 18 on)
                      | 1:u8 remote_cluster:String remote_replica:String source:bool (from 18 on)
"""

from __future__ import annotations

from enum import IntEnum
from typing import Union

from attrs import frozen

from rustlog.wire.fluvio.primitives import I32, U8, U32, U64, Reader, Unreadable, Writer

_TELLS_DIRECTION = 18


class Compression(IntEnum):
    """What a topic asks its producers to do."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ANY = 4
    ZSTD = 5


@frozen
class Storage:
    """How large segments, and the partition as a whole, may become."""

    segment_size: int | None = None
    max_partition_size: int | None = None


@frozen
class Deduplication:
    """A filter that is kept within bounds."""

    count: int
    age: tuple[int, int] | None
    uses: str
    parameters: tuple[tuple[str, str], ...] = ()


@frozen
class RemoteMirror:
    """The partition is copied to another cluster's."""

    home_cluster: str
    home_spu_key: str
    home_spu_id: int
    endpoint: str
    target: bool = False


@frozen
class HomeMirror:
    """The partition is a copy of another cluster's."""

    remote_cluster: str
    remote_replica: str
    source: bool = False


PartitionMirror = Union[RemoteMirror, HomeMirror]


def read_compression(reader: Reader) -> Compression:
    return Compression(reader.number(U8))


def read_cleanup_policy(reader: Reader) -> int:
    """How many seconds are kept."""
    kind = reader.number(U8)
    if kind:
        raise Unreadable(f"{kind} is not a cleanup policy")
    return reader.number(U32)


def write_cleanup_policy(writer: Writer, retention_seconds: int) -> None:
    writer.pack(U8, 0)
    writer.pack(U32, retention_seconds)


def read_storage(reader: Reader) -> Storage:
    segment_size = reader.option(lambda: reader.number(U32))
    return Storage(segment_size, reader.option(lambda: reader.number(U64)))


def write_storage(writer: Writer, storage: Storage) -> None:
    writer.option(storage.segment_size, lambda value: writer.pack(U32, value))
    writer.option(storage.max_partition_size, lambda value: writer.pack(U64, value))


def read_deduplication(reader: Reader) -> Deduplication:
    count = reader.number(U64)
    age = reader.option(reader.duration)
    return Deduplication(count, age, reader.string(), reader.mapping(reader.string, reader.string))


def write_deduplication(writer: Writer, value: Deduplication) -> None:
    writer.pack(U64, value.count)
    writer.option(value.age, writer.duration)
    writer.string(value.uses)
    writer.mapping(value.parameters, writer.string, writer.string)


def read_mirror(reader: Reader, version: int) -> PartitionMirror:
    kind = reader.number(U8)
    if kind == 0:
        place = reader.string(), reader.string(), reader.number(I32), reader.string()
        return RemoteMirror(*place, _read_direction(reader, version))
    if kind == 1:
        return HomeMirror(reader.string(), reader.string(), _read_direction(reader, version))
    raise Unreadable(f"{kind} is not a kind of mirror")


def _read_direction(reader: Reader, version: int) -> bool:
    return version >= _TELLS_DIRECTION and reader.boolean()


def write_optional_mirror(writer: Writer, version: int, mirror: PartitionMirror | None) -> None:
    writer.boolean(mirror is not None)
    if mirror is not None:
        write_mirror(writer, version, mirror)


def write_mirror(writer: Writer, version: int, mirror: PartitionMirror) -> None:
    if isinstance(mirror, RemoteMirror):
        writer.pack(U8, 0)
        writer.string(mirror.home_cluster)
        writer.string(mirror.home_spu_key)
        writer.pack(I32, mirror.home_spu_id)
        writer.string(mirror.endpoint)
        direction = mirror.target
    else:
        writer.pack(U8, 1)
        writer.string(mirror.remote_cluster)
        writer.string(mirror.remote_replica)
        direction = mirror.source
    if version >= _TELLS_DIRECTION:
        writer.boolean(direction)
