"""
The side from which a conversion reads: a closed directory, of either format.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import PurePath
from struct import Struct
from typing import Any
from zlib import crc32

from attrs import define

from rustlog.errors import NotHeldByStore, RustlogError, StartupError
from rustlog.interfaces import IFile, IFiles
from rustlog.log import records
from rustlog.model import Record, TopicInfo
from rustlog.storage.datadir import MINIKAFKA, STATE, StoreState, read_format
from rustlog.storage.documents import DamagedDocument, read_document
from rustlog.storage.minikafka.format import (
    RUN_BYTES_MAX,
    RUN_RECORDS_MAX,
    TIME_SPAN_MAX,
    TORN,
    WRONG_CHECKSUM,
    walk,
)
from rustlog.storage.minikafka.limits import TRANSACTIONS
from rustlog.storage.segments.files import LOG_SUFFIX, segment_path
from rustlog.storage.segments.inspection import (
    Problem,
    StoredPartition,
    check_format,
    find_partitions,
    find_topics,
    segments_of,
)
from rustlog.storage.segments.reading import Damage
from rustlog.storage.segments.walking import EXAMINED_BYTES_MAX, checked_batches

Run = tuple[list[Record], int]
"""Records whose offsets follow each other, and how many bytes of log they were."""

_PLACE = Struct(">qqii")


def check_source(files: IFiles, root: PurePath, format_name: str) -> None:
    """
    See whether a directory has the format that it is said to have.

    @raise StartupError: it has not.
    """
    if not files.exists(root):
        raise StartupError(f"there is no directory {root}")
    found = check_format(files, root)
    if found != format_name:
        raise StartupError(f"{root} is a directory of the store {found!r}, not of {format_name!r}")


class Source:
    """
    A directory that is read.

    @raise StartupError: it was not closed in good order.
    """

    def __init__(self, files: IFiles, root: PurePath, format_name: str) -> None:
        self._files = files
        self._format = format_name
        self.root = root
        self.state = self._read_state()

    def _read_state(self) -> StoreState:
        try:
            members = read_document(self._files, self.root / STATE)
        except DamagedDocument as damage:
            raise StartupError(f"{damage}; restore it from a backup") from None
        if members is None:
            if read_format(self._files, self.root) is not None:
                raise StartupError(f"{self.root / STATE} is missing; restore it from a backup")
            return StoreState()
        state = StoreState(**members)
        if not state.clean:
            raise StartupError(
                f"{self.root} was not closed in good order; start a broker on it with "
                f"--storage={self._format}, stop it, and convert then"
            )
        return state

    def topics(self) -> list[TopicInfo]:
        """All of them."""
        found = list(find_topics(self._files, self.root, self._format))
        for each in found:
            if isinstance(each, Problem):
                raise StartupError(str(each))
        return [each for each in found if isinstance(each, TopicInfo)]

    def partitions(self, topic: TopicInfo) -> list[StoredPartition]:
        """The partitions of a topic."""
        found = list(find_partitions(self._files, self.root, topic, self._format))
        for each in found:
            if isinstance(each, Problem):
                raise StartupError(str(each))
        return [each for each in found if isinstance(each, StoredPartition)]

    def start_of(self, partition: StoredPartition) -> int:
        """The first offset that can be read."""
        bases = segments_of(self._files, partition)
        return max(partition.log_start_offset, bases[0] if bases else 0)

    def size(self) -> int:
        """How many bytes of log there are."""
        return sum(
            self._files.size(segment_path(each.directory, base, LOG_SUFFIX))
            for topic in self.topics()
            for each in self.partitions(topic)
            for base in segments_of(self._files, each)
        )

    def runs(self, partition: StoredPartition, start: int) -> Iterator[Run]:
        """The records of a partition from an offset on."""
        return read_runs(self._files, self._format, partition, start)


def read_runs(files: IFiles, format_name: str, partition: StoredPartition, start: int) -> Iterator[Run]:
    """
    The records of a partition from an offset on.

    @raise StartupError: at the first place that is not right.
    """
    bases = segments_of(files, partition)
    for base, following in zip_longest(bases, bases[1:]):
        if following is not None and following <= start:
            continue
        path, end = segment_path(partition.directory, base, LOG_SUFFIX), base
        file = files.open(path)
        try:
            for run, size in _runs_of_segment(file, format_name, partition, base, following is None):
                end += len(run)
                wanted = [each for each in run if each.offset is None or each.offset >= start]
                if wanted:
                    yield wanted, size
        except (Damage, RustlogError) as problem:
            raise StartupError(f"{path} is damaged at offset {end}: {problem}") from None
        finally:
            file.close()
        if following is not None and end != following:
            raise StartupError(f"{path} ends at offset {end}, but the next segment begins at {following}")


def _runs_of_segment(
    file: IFile, format_name: str, partition: StoredPartition, base: int, is_last: bool
) -> Iterator[Run]:
    if format_name == MINIKAFKA:
        yield from _runs_of_records(file, partition, base, is_last)
        return
    for _, batch in checked_batches(file.read, 0, file.size, base):
        if batch.is_control or batch.is_transactional:
            raise NotHeldByStore(TRANSACTIONS)
        yield list(records.decode(batch)), batch.size


def _runs_of_records(file: IFile, partition: StoredPartition, base: int, is_last: bool) -> Iterator[Run]:
    run: list[Record] = []
    size, end = 0, base
    try:
        for position, record_size, record, is_right in walk(file.read, 0, file.size, base):
            if not is_right:
                raise Damage(position, WRONG_CHECKSUM)
            if run and _is_full(run, size + record_size, record):
                yield run, size
                run, size = [], 0
            run.append(record)
            size, end = size + record_size, end + 1
    except Damage as damage:
        rest = file.read(damage.position, EXAMINED_BYTES_MAX)
        if not is_last or damage.reason != TORN or partition.layout.another_follows(rest, end):
            raise  # Otherwise it was never completed; a broker would cut it off.
    if run:
        yield run, size


def _is_full(run: list[Record], size: int, record: Record) -> bool:
    return (
        len(run) >= RUN_RECORDS_MAX
        or size > RUN_BYTES_MAX
        or not -TIME_SPAN_MAX < record.timestamp - run[0].timestamp < TIME_SPAN_MAX
    )


@define
class Tally:
    """What a partition has: enough to see that another one has the same."""

    next_offset: int
    records: int = 0
    checksum: int = 0

    def add(self, run: list[Record]) -> None:
        """Count records; no key and no value are the same as empty ones here."""
        checksum = self.checksum
        for record in run:
            key, value = record.key or b"", record.value or b""
            place = _PLACE.pack(record.offset or 0, record.timestamp, len(key), len(value))
            checksum = crc32(value, crc32(key, crc32(place, checksum)))
        self.checksum = checksum
        self.records += len(run)
        self.next_offset += len(run)

    def document(self) -> dict[str, Any]:
        return {"next_offset": self.next_offset, "records": self.records, "checksum": self.checksum}
