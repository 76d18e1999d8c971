"""
Compression as Fluvio has it: by Kafka's numbers and in Kafka's formats, but for snappy.

That is in the framing format of snappy's own (C{ff 06 00 00 73 4e 61 50 70 59} is its beginning), where Kafka
has xerial's.

What is compressed here is sent and not kept, once for each reader, so it is done as fast as the formats
allow: gzip at level 1 is eighteen times as fast as at 6 and makes half as much again, lz4 at 1 is seven times
as fast as at 4.
"""

from __future__ import annotations

from collections.abc import Callable

import cramjam

from rustlog.errors import CorruptBatch
from rustlog.log import codecs
from rustlog.log.batch import Buffer
from rustlog.log.codecs import Codec, bounded

_FASTEST = 1


def compress(codec: Codec, data: bytes) -> bytes:
    """Compress as clients of Fluvio expect to find it."""
    return _COMPRESSORS[codec](data)


def decompress(codec: int, data: Buffer, size_max: int) -> bytes:
    """
    Decompress what a client sent, with the bounds of L{codecs.decompress}.

    @raise InvalidRecord: there is no such codec.
    @raise CorruptBatch: the data are damaged, or would become more than C{size_max} bytes.
    """
    if codec != Codec.SNAPPY:
        return codecs.decompress(codec, data, size_max)
    try:
        return _unframed(data, size_max)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy data do not decompress into {size_max} bytes: {error}") from None


_unframed = bounded(cramjam.snappy.decompress_into)


def _compress_lz4(data: bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(level=_FASTEST, block_linked=False, content_checksum=False)
    compressor.compress(data)
    return bytes(compressor.finish())


_COMPRESSORS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: lambda data: bytes(cramjam.gzip.compress(data, level=_FASTEST)),
    Codec.SNAPPY: lambda data: bytes(cramjam.snappy.compress(data)),
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.compress(data, level=_FASTEST)),
}
