"""
All batches of a segment, in their order, each checked: for recovery and for tools.

No index is used, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rustlog.log.batch import HEADER, HEADER_SIZE, MAGIC, PREFIX_SIZE, RecordBatch, batch_size
from rustlog.storage.segments.reading import Damage

CHUNK_BYTES = 1024 * 1024
EXAMINED_BYTES_MAX = 64 * 1024 * 1024
"""How far behind a bad batch others are looked for."""

_MAGIC_AT = 16

Read = Callable[[int, int], bytes]
"""Takes a position and a size, as L{IFile.read <rustlog.interfaces.IFile.read>} does."""


def checked_batches(read: Read, start: int, end: int, expected: int) -> Iterator[tuple[int, RecordBatch]]:
    """
    The batches between two positions, and where each begins.  Blocks.

    @param expected: the offset of the first one.
    @raise Damage: at the first that is not right.
    """
    chunk, chunk_start, position = memoryview(b""), start, start
    while position < end:
        rest = chunk[position - chunk_start :]
        problem, batch = check_batch(rest, expected)
        if batch is not None:
            yield position, batch
            position += batch.size
            expected = batch.next_offset
            continue
        wanted = _bytes_to_judge(rest, end - position)
        if wanted <= len(rest):
            raise Damage(position, problem)
        chunk, chunk_start = memoryview(read(position, wanted)), position
        if len(chunk) < wanted:
            # Someone has cut it off meanwhile.
            raise Damage(position, "the file ends within a batch")


def check_batch(content: memoryview, expected: int | None) -> tuple[str, RecordBatch | None]:
    """
    The batch at the beginning of C{content}, or what is wrong with it.

    @param expected: the offset it must have, if that is known.  Offsets and lengths lie
        outside the checksum: this is what guards them.
    """
    if len(content) < HEADER_SIZE:
        return "the file ends within a batch", None
    fields = HEADER.unpack_from(content)
    size = fields[1] + PREFIX_SIZE
    if fields[3] != MAGIC or size < HEADER_SIZE:
        return "there is no batch where one should begin", None
    if size > len(content):
        return "the file ends within a batch", None
    if expected is not None and fields[0] != expected:
        return f"offset {fields[0]} stands where {expected} should", None
    batch = RecordBatch(content[:size])
    if not batch.has_valid_crc():
        return "the checksum does not match", None
    return "", batch


def another_follows(content: bytes, expected: int) -> bool:
    """
    Whether a whole batch stands somewhere behind the bad one at the beginning: then that is
    damaged, and not torn.

    What a batch contains may look like one.  Then a torn one is taken for damage.
    """
    view = memoryview(content)
    found = content.find(MAGIC, _MAGIC_AT + 1)
    while found >= 0:
        start = found - _MAGIC_AT
        if start + HEADER_SIZE > len(content):
            return False
        size = batch_size(content, start)
        if HEADER_SIZE <= size <= len(content) - start:
            batch = RecordBatch(view[start : start + size])
            if expected < batch.base_offset and batch.has_valid_crc():
                return True
        found = content.find(MAGIC, found + 1)
    return False


def _bytes_to_judge(content: memoryview, available: int) -> int:
    """How many bytes must be there to say whether a batch is right."""
    if len(content) < HEADER_SIZE:
        return min(CHUNK_BYTES, available)
    size = batch_size(content)
    if size <= len(content) or size > available:
        return 0
    return min(max(size, CHUNK_BYTES), available)
