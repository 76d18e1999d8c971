"""
Compression, by Kafka's codec numbers; all of it is done by C{cramjam}.

Three habits of Kafka clients are kept here:

- B{snappy} comes in two framings.  Java and most others write xerial's, librdkafka writes one bare
  block.  Both are read, xerial's is written:

      82 53 4e 41 50 50 59 00, i32 version, i32 oldest compatible version,
      then blocks: i32 size, that many bytes of bare snappy

- B{lz4} is a frame whose blocks must not refer to each other: the Java client refuses linked ones.
- B{zstd} is written at level 3, Kafka's default.

Decompressing is bounded: a few kilobytes can claim to be gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct

import cramjam

from rustlog.errors import CorruptBatch, InvalidRecord

Buffer = bytes | bytearray | memoryview

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
"""What xerial cuts the data into; Java allocates a buffer of that size."""

_I32 = Struct(">i")

_ZSTD_LEVEL = 3
_FIRST_ROOM_BYTES = 64 * 1024
_GROWTH = 8
"""
Ordinary data shrink less than this, so that the first try to decompress them nearly always
succeeds; what does not fit is tried again with so many times the room.
"""


class Codec(IntEnum):
    """The numbers that stand in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer) -> bytes:
    """Compress as Kafka clients expect to find it."""
    return _COMPRESSORS[codec](data)


def decompress(codec: int, data: Buffer, size_max: int) -> bytes:
    """
    Decompress what a client sent.  While this goes on, no more than C{size_max} bytes are
    taken for it, and once it is known to fit, as many again for a moment.

    @raise InvalidRecord: there is no such codec.
    @raise CorruptBatch: the data are damaged, or would become more than C{size_max} bytes.
    """
    try:
        decompressor = _DECOMPRESSORS[codec]
    except KeyError:
        raise InvalidRecord(f"unknown compression codec {codec}") from None
    try:
        return decompressor(data, size_max)
    except cramjam.DecompressionError as error:
        name = Codec(codec).name.lower()
        raise CorruptBatch(f"{name} data do not decompress into {size_max} bytes: {error}") from None


# -- writing -------------------------------------------------------------------------


def _compress_gzip(data: Buffer) -> bytes:
    return bytes(cramjam.gzip.compress(data))


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += _I32.pack(len(block)), block
    return b"".join(parts)


def _compress_lz4(data: Buffer) -> bytes:
    compressor = cramjam.lz4.Compressor(block_linked=False, content_checksum=False)
    compressor.compress(bytes(data))  # It takes no other kind of buffer.
    return bytes(compressor.finish())


def _compress_zstd(data: Buffer) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


# -- reading -------------------------------------------------------------------------


def _keep(data: Buffer, size_max: int) -> bytes:
    """What was never compressed is as large as it is: there is nothing to fear."""
    return bytes(data)


def bounded(decompress_into: Callable[[Buffer, bytearray], int]) -> Callable[[Buffer, int], bytes]:
    """
    Make a bounded decompressor of one that fails when its output has no room.

    How much room is needed can not be known: the sizes in the formats are optional, or
    claims.  So try, and try again with more.
    """

    def attempt(data: Buffer, room: int) -> bytes:
        output = bytearray(room)
        written = decompress_into(data, output)
        return bytes(memoryview(output)[:written])

    def decompress_bounded(data: Buffer, size_max: int) -> bytes:
        room = min(size_max, max(_FIRST_ROOM_BYTES, _GROWTH * len(data)))
        while True:
            try:
                return attempt(data, room)
            except cramjam.DecompressionError:
                if room == size_max:
                    raise
            room = min(size_max, room * _GROWTH)

    return decompress_bounded


def _decompress_snappy(data: Buffer, size_max: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        return _decompress_xerial(memoryview(data), size_max)
    return _decompress_block(data, size_max)


def _decompress_xerial(data: memoryview, size_max: int) -> bytes:
    if len(data) < len(_XERIAL_HEADER):
        raise CorruptBatch("snappy data end within their header")
    output, position = bytearray(), len(_XERIAL_HEADER)
    while position < len(data):
        left = len(data) - position - _I32.size
        if left < 0:
            raise CorruptBatch("snappy data end within the size of a block")
        (size,) = _I32.unpack_from(data, position)
        if not 0 <= size <= left:
            raise CorruptBatch(f"a snappy block claims {size} bytes where {left} are left")
        position += _I32.size
        output += _decompress_block(data[position : position + size], size_max - len(output))
        position += size
    return bytes(output)


def _decompress_block(data: Buffer, room: int) -> bytes:
    """One bare block; it begins with the size that it will have."""
    size = cramjam.snappy.decompress_raw_len(data)
    if size > room:
        raise CorruptBatch(f"a snappy block would become {size} bytes where {room} are allowed")
    return bytes(cramjam.snappy.decompress_raw(data))


_COMPRESSORS: dict[Codec, Callable[[Buffer], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}

_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Codec.NONE: _keep,
    Codec.GZIP: bounded(cramjam.gzip.decompress_into),
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: bounded(cramjam.lz4.decompress_into),
    Codec.ZSTD: bounded(cramjam.zstd.decompress_into),
}
