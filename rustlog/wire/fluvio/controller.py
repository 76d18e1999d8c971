"""
The bytes of what is asked of Fluvio's controller: Watch, Create, Delete and List, both ways.

Each request, and the answers of Watch and List, are typed (L{rustlog.wire.fluvio.objects})::

    Watch request  => epoch:i64 summary:bool (from 10 on)
    Watch answer   => epoch:i64 [change:u8 metadata] [metadata]
    List request   => [filter:String] summary:bool (from 10 on) system:bool (from 13 on)
    List answer    => [metadata]
    Create request => name:String dry_run:bool Option<timeout_ms:u32> (from 7 on) spec
    Delete request => name:String force:bool (from 13 on)

Create and Delete are answered with a status, which is not typed::

    status => name:String error_code Option<message:String>

A watch has an answer at once and another for each change; an answer with objects in its second list replaces
what the client knows, one with changes alters it, and one with neither is as if it had not been sent.
"""

from __future__ import annotations

from enum import IntEnum

from attrs import frozen

from rustlog.wire.fluvio.errors import NONE, ErrorCode, read_error, write_error
from rustlog.wire.fluvio.objects import (
    KINDS,
    Metadata,
    Spec,
    read_metadata,
    read_typed,
    write_metadata,
    write_typed,
)
from rustlog.wire.fluvio.primitives import I64, U8, U32, Reader, Writer

_HAS_TIMEOUT, _HAS_SUMMARY, _HAS_SYSTEM, _HAS_FORCE = 7, 10, 13, 13

_NAMED_BY_TEXT = frozenset(["Topic", "SmartModule", "SpuGroup", "TableFormat", "Mirror"])
"""The labels of objects that are deleted by a plain name."""


@frozen
class WatchRequest:
    """A client wants to know all objects of a label, now and from now on."""

    label: str
    epoch: int = 0
    summary: bool = False


@frozen
class CreateRequest:
    """
    A client wants an object.

    @ivar spec: C{None} if it is of a label of which there are no objects here.
    """

    label: str
    name: str
    spec: Spec | None
    dry_run: bool = False
    timeout_ms: int | None = None


@frozen
class DeleteRequest:
    """
    A client wants an object away.

    @ivar name: empty if objects of that label are not called by a name.
    """

    label: str
    name: str
    force: bool = False


@frozen
class ListRequest:
    """
    A client wants to know the objects of a label.

    @ivar filters: parts of names, of which one must fit; any name fits if there are none.
    """

    label: str
    filters: tuple[str, ...] = ()
    summary: bool = False
    system: bool = False

    def wants(self, name: str) -> bool:
        """Whether an object is one of those."""
        return not self.filters or any(each in name for each in self.filters)


class ChangeKind(IntEnum):
    """What became of an object."""

    UPDATE = 0
    DELETE = 1


@frozen
class Change:
    """What became of one object; of a deleted one, only the name matters."""

    kind: ChangeKind
    metadata: Metadata


@frozen
class WatchResponse:
    """All objects, or what has changed."""

    label: str
    epoch: int
    changes: tuple[Change, ...] = ()
    all: tuple[Metadata, ...] = ()


@frozen
class ListResponse:
    """Objects."""

    label: str
    objects: tuple[Metadata, ...]


@frozen
class Status:
    """What became of a Create or Delete."""

    name: str
    error: ErrorCode = NONE
    message: str | None = None


# -- requests --------------------------------------------------------------------------


def read_watch(reader: Reader, version: int) -> WatchRequest:
    return read_typed(
        reader,
        lambda content, label: WatchRequest(
            label, content.number(I64), version >= _HAS_SUMMARY and content.boolean()
        ),
    )


def write_watch(writer: Writer, version: int, request: WatchRequest) -> None:
    def write(content: Writer) -> None:
        content.pack(I64, request.epoch)
        if version >= _HAS_SUMMARY:
            content.boolean(request.summary)

    write_typed(writer, request.label, write)


def read_create(reader: Reader, version: int) -> CreateRequest:
    def read(content: Reader, label: str) -> CreateRequest:
        name, dry_run = content.string(), content.boolean()
        timeout_ms = content.option(lambda: content.number(U32)) if version >= _HAS_TIMEOUT else None
        kind = KINDS.get(label)
        if kind is None:
            content.rest()
            return CreateRequest(label, name, None, dry_run, timeout_ms)
        return CreateRequest(label, name, kind.read_spec(content, version), dry_run, timeout_ms)

    return read_typed(reader, read)


def write_create(writer: Writer, version: int, request: CreateRequest) -> None:
    def write(content: Writer) -> None:
        content.string(request.name)
        content.boolean(request.dry_run)
        if version >= _HAS_TIMEOUT:
            content.option(request.timeout_ms, lambda value: content.pack(U32, value))
        if request.spec is not None:
            KINDS[request.label].write_spec(content, version, request.spec)

    write_typed(writer, request.label, write)


def read_delete(reader: Reader, version: int) -> DeleteRequest:
    def read(content: Reader, label: str) -> DeleteRequest:
        if label not in _NAMED_BY_TEXT:
            content.rest()
            return DeleteRequest(label, "")
        return DeleteRequest(label, content.string(), version >= _HAS_FORCE and content.boolean())

    return read_typed(reader, read)


def write_delete(writer: Writer, version: int, request: DeleteRequest) -> None:
    def write(content: Writer) -> None:
        content.string(request.name)
        if version >= _HAS_FORCE:
            content.boolean(request.force)

    write_typed(writer, request.label, write)


def read_list(reader: Reader, version: int) -> ListRequest:
    return read_typed(
        reader,
        lambda content, label: ListRequest(
            label,
            content.strings(),
            version >= _HAS_SUMMARY and content.boolean(),
            version >= _HAS_SYSTEM and content.boolean(),
        ),
    )


def write_list(writer: Writer, version: int, request: ListRequest) -> None:
    def write(content: Writer) -> None:
        content.strings(request.filters)
        if version >= _HAS_SUMMARY:
            content.boolean(request.summary)
        if version >= _HAS_SYSTEM:
            content.boolean(request.system)

    write_typed(writer, request.label, write)


# -- answers ---------------------------------------------------------------------------


def read_watch_response(reader: Reader, version: int) -> WatchResponse:
    def read(content: Reader, label: str) -> WatchResponse:
        epoch = content.number(I64)
        changes = content.vector(
            lambda: Change(ChangeKind(content.number(U8)), read_metadata(content, version, label))
        )
        return WatchResponse(
            label, epoch, changes, content.vector(lambda: read_metadata(content, version, label))
        )

    return read_typed(reader, read)


def write_watch_response(writer: Writer, version: int, response: WatchResponse) -> None:
    def write(content: Writer) -> None:
        def write_change(change: Change) -> None:
            content.pack(U8, change.kind)
            write_metadata(content, version, response.label, change.metadata)

        content.pack(I64, response.epoch)
        content.vector(response.changes, write_change)
        content.vector(response.all, lambda each: write_metadata(content, version, response.label, each))

    write_typed(writer, response.label, write)


def read_list_response(reader: Reader, version: int) -> ListResponse:
    return read_typed(
        reader,
        lambda content, label: ListResponse(
            label, content.vector(lambda: read_metadata(content, version, label))
        ),
    )


def write_list_response(writer: Writer, version: int, response: ListResponse) -> None:
    write_typed(
        writer,
        response.label,
        lambda content: content.vector(
            response.objects, lambda each: write_metadata(content, version, response.label, each)
        ),
    )


def read_status(reader: Reader, version: int) -> Status:
    return Status(reader.string(), read_error(reader), reader.option(reader.string))


def write_status(writer: Writer, version: int, status: Status) -> None:
    writer.string(status.name)
    write_error(writer, status.error)
    writer.option(status.message, writer.string)
