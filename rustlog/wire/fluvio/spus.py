"""
A streaming processing unit (SPU), which is what Fluvio calls a server that keeps partitions.

::

    spec    => id:i32 kind:u8 public:{port:u16 [Option<hostname:String> Option<ip:String>] encryption:u8}
               private:endpoint Option<rack:String> Option<public_local:endpoint> (from 1 on)
    endpoint => port:u16 host:String encryption:u8
    status  => resolution:u8

A client connects to the first public address, by name or else by number.
"""

from __future__ import annotations

from enum import IntEnum

from attrs import frozen

from rustlog.wire.fluvio.primitives import I32, U8, U16, Reader, Writer

_HAS_LOCAL = 1


class SpuKind(IntEnum):
    """Who started it."""

    MANAGED = 0
    CUSTOM = 1


class Encryption(IntEnum):
    """How to speak to it; clients do as they are configured, whatever this says."""

    PLAINTEXT = 0
    SSL = 1


@frozen
class Ingress:
    """Where it is reached: a name, or a number, or both."""

    hostname: str | None = None
    ip: str | None = None


@frozen
class PublicEndpoint:
    """Where clients reach it."""

    port: int
    ingress: tuple[Ingress, ...]
    encryption: Encryption = Encryption.PLAINTEXT


@frozen
class Endpoint:
    """Where others reach it."""

    port: int
    host: str
    encryption: Encryption = Encryption.PLAINTEXT


@frozen
class SpuSpec:
    """A unit."""

    id: int
    public: PublicEndpoint
    private: Endpoint
    kind: SpuKind = SpuKind.CUSTOM
    rack: str | None = None
    public_local: Endpoint | None = None


class SpuResolution(IntEnum):
    """Whether it is there."""

    ONLINE = 0
    OFFLINE = 1
    INIT = 2


@frozen
class SpuStatus:
    """How it is."""

    resolution: SpuResolution = SpuResolution.ONLINE


# -- bytes -----------------------------------------------------------------------------


def read_spu_spec(reader: Reader, version: int) -> SpuSpec:
    number, kind = reader.number(I32), SpuKind(reader.number(U8))
    public = _read_public(reader)
    private = _read_endpoint(reader)
    rack = reader.option(reader.string)
    local = reader.option(lambda: _read_endpoint(reader)) if version >= _HAS_LOCAL else None
    return SpuSpec(number, public, private, kind, rack, local)


def _read_public(reader: Reader) -> PublicEndpoint:
    port = reader.number(U16)
    ingress = reader.vector(lambda: Ingress(reader.option(reader.string), reader.option(reader.string)))
    return PublicEndpoint(port, ingress, Encryption(reader.number(U8)))


def _read_endpoint(reader: Reader) -> Endpoint:
    return Endpoint(reader.number(U16), reader.string(), Encryption(reader.number(U8)))


def write_spu_spec(writer: Writer, version: int, spec: SpuSpec) -> None:
    writer.pack(I32, spec.id)
    writer.pack(U8, spec.kind)
    writer.pack(U16, spec.public.port)
    writer.vector(spec.public.ingress, lambda each: _write_ingress(writer, each))
    writer.pack(U8, spec.public.encryption)
    _write_endpoint(writer, spec.private)
    writer.option(spec.rack, writer.string)
    if version >= _HAS_LOCAL:
        writer.option(spec.public_local, lambda value: _write_endpoint(writer, value))


def _write_ingress(writer: Writer, ingress: Ingress) -> None:
    writer.option(ingress.hostname, writer.string)
    writer.option(ingress.ip, writer.string)


def _write_endpoint(writer: Writer, endpoint: Endpoint) -> None:
    writer.pack(U16, endpoint.port)
    writer.string(endpoint.host)
    writer.pack(U8, endpoint.encryption)


def read_spu_status(reader: Reader, version: int) -> SpuStatus:
    return SpuStatus(SpuResolution(reader.number(U8)))


def write_spu_status(writer: Writer, version: int, status: SpuStatus) -> None:
    writer.pack(U8, status.resolution)
