"""
All batches of a segment, in their order, each checked: for recovery and for tools.

No index is used, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rustlog.log.batch import HEADER_SIZE, MAGIC, RecordBatch, batch_size
from rustlog.storage.segments.reading import Damage
from rustlog.storage.segments.segment import check_batch

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
