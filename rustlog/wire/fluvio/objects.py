"""
The objects of Fluvio's controller: which kinds there are, and how each is written.

::

    typed    => label:String size:u32 content
    metadata => name:String spec status

What is in a typed content depends on its label; L{KINDS} has those that exist here.  There are other labels
(C{SmartModule}, C{TableFormat}, …), of which there are no objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, Union

from attrs import frozen

from rustlog.wire.fluvio.partitions import (
    PartitionSpec,
    PartitionStatus,
    read_partition_spec,
    read_partition_status,
    write_partition_spec,
    write_partition_status,
)
from rustlog.wire.fluvio.primitives import U32, Reader, Unreadable, Writer
from rustlog.wire.fluvio.spus import (
    SpuSpec,
    SpuStatus,
    read_spu_spec,
    read_spu_status,
    write_spu_spec,
    write_spu_status,
)
from rustlog.wire.fluvio.topics import (
    TopicSpec,
    TopicStatus,
    read_topic_spec,
    read_topic_status,
    write_topic_spec,
    write_topic_status,
)

T = TypeVar("T")

TOPIC = "Topic"
PARTITION = "Partition"
SPU = "SPU"

Spec = Union[TopicSpec, PartitionSpec, SpuSpec]
Status = Union[TopicStatus, PartitionStatus, SpuStatus]


@frozen
class Metadata:
    """An object with its name."""

    name: str
    spec: Spec
    status: Status


@frozen
class Kind:
    """How objects of one label are read and written."""

    read_spec: Callable[[Reader, int], Any]
    write_spec: Callable[[Writer, int, Any], None]
    read_status: Callable[[Reader, int], Any]
    write_status: Callable[[Writer, int, Any], None]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        TOPIC: Kind(read_topic_spec, write_topic_spec, read_topic_status, write_topic_status),
        PARTITION: Kind(
            read_partition_spec, write_partition_spec, read_partition_status, write_partition_status
        ),
        SPU: Kind(read_spu_spec, write_spu_spec, read_spu_status, write_spu_status),
    }
)


def read_metadata(reader: Reader, version: int, label: str) -> Metadata:
    """An object of that label."""
    kind = KINDS.get(label)
    if kind is None:
        raise Unreadable(f"{label[:100]!r} is no kind of object")
    return Metadata(reader.string(), kind.read_spec(reader, version), kind.read_status(reader, version))


def write_metadata(writer: Writer, version: int, label: str, metadata: Metadata) -> None:
    """An object of that label."""
    kind = KINDS[label]
    writer.string(metadata.name)
    kind.write_spec(writer, version, metadata.spec)
    kind.write_status(writer, version, metadata.status)


def read_typed(reader: Reader, read: Callable[[Reader, str], T]) -> T:
    """What C{read} makes of a typed content, all of it, and its label."""
    label = reader.string()
    content = Reader(reader.take(reader.number(U32)))
    value = read(content, label)
    content.finish()
    return value


def write_typed(writer: Writer, label: str, write: Callable[[Writer], object]) -> None:
    """What C{write} writes, under a label."""
    content = Writer()
    write(content)
    writer.string(label)
    writer.blob(content.whole())
