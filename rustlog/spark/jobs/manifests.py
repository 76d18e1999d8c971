"""
What an archive has, commit by commit.

A L{Manifest} is one commit: the files that came with it, which records are in them, and up to where
every partition has been archived by then.  It is written as one document, and what it says has happened
once it is there; see L{rustlog.spark.jobs.archives}.

Records of a partition are archived in chunks, each of which fits memory.  A chunk is one row group in each
of the files (one for each date) that have a part of it, so whoever wants the order back reads chunk by
chunk, and sorts none larger than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import cattrs
from attrs import evolve, frozen

Offsets = dict[str, dict[int, int]]
"""By topic and partition."""


@frozen
class ArchivedFile:
    """
    One Parquet file of a commit.

    @ivar path: within the archive.
    @ivar staged: where it is until the commit is published, within the staging directory.
    @ivar date: of all its records, in UTC, as C{2026-11-18}.
    """

    path: str
    staged: str
    topic: str
    partition: int
    date: str
    records: int
    size: int
    first_offset: int
    last_offset: int


@frozen
class Chunk:
    """
    Records of a partition that were archived together, in the order of their offsets.

    @ivar parts: path of a file and number of a row group, one for each date among the records.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    parts: tuple[tuple[str, int], ...]


@frozen
class Part:
    """
    What one task has archived.

    @ivar next_offset: up to where its range has been read, whether there were records or not.
    """

    topic: str
    partition: int
    start_offset: int
    next_offset: int
    files: tuple[ArchivedFile, ...] = ()
    chunks: tuple[Chunk, ...] = ()

    @property
    def records(self) -> int:
        return sum(each.records for each in self.chunks)

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)


@frozen
class Manifest:
    """
    One commit.

    @ivar number: counted from 1, without gaps.
    @ivar run: names the process that made it, and its staging directory.
    @ivar next_offsets: of every partition that was ever archived here, after this commit.
    @ivar partitions: how many partitions each of the topics had.
    """

    number: int
    run: str
    time_ms: int
    next_offsets: Offsets
    partitions: dict[str, int]
    files: tuple[ArchivedFile, ...] = ()
    chunks: tuple[Chunk, ...] = ()

    @property
    def records(self) -> int:
        return sum(each.records for each in self.chunks)

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)


@frozen
class Total:
    """What some commits have together."""

    commits: int = 0
    records: int = 0
    files: int = 0
    size: int = 0

    def plus(self, manifest: Manifest) -> Total:
        return Total(
            self.commits + 1,
            self.records + manifest.records,
            self.files + len(manifest.files),
            self.size + manifest.size,
        )


class GapBetweenParts(ValueError):
    """The parts of a commit do not continue each other, or what was there before."""


def combine(
    before: Manifest | None, run: str, time_ms: int, partitions: Mapping[str, int], parts: Iterable[Part]
) -> Manifest:
    """
    The commit that follows C{before} when all tasks of a round are done.

    @raise GapBetweenParts: something would be missing, or there twice.
    """
    offsets = {topic: dict(each) for topic, each in before.next_offsets.items()} if before else {}
    ordered = sorted(parts, key=lambda part: (part.topic, part.partition, part.start_offset))
    for part in ordered:
        reached = offsets.setdefault(part.topic, {})
        expected = reached.get(part.partition, part.start_offset)
        if part.start_offset != expected:
            raise GapBetweenParts(
                f"{part.topic}-{part.partition} goes on at {part.start_offset}, not at {expected}"
            )
        reached[part.partition] = part.next_offset
    number = before.number + 1 if before else 1
    return Manifest(
        number,
        run,
        time_ms,
        offsets,
        {**(before.partitions if before else {}), **partitions},
        tuple(_named(each, number) for part in ordered for each in part.files),
        tuple(_placed(each, part, number) for part in ordered for each in part.chunks),
    )


def _named(file: ArchivedFile, number: int) -> ArchivedFile:
    return evolve(file, path=final_path(file, number))


def _placed(chunk: Chunk, part: Part, number: int) -> Chunk:
    """Tasks name files as they were staged; the commit knows how they will be called."""
    names = {each.staged: final_path(each, number) for each in part.files}
    return evolve(chunk, parts=tuple((names[staged], group) for staged, group in chunk.parts))


def final_path(file: ArchivedFile, number: int) -> str:
    """Where a file of a commit is found: by topic and date, as Spark, Hive and DuckDB understand it."""
    return (
        f"topic={file.topic}/date={file.date}/"
        f"{file.topic}-{file.partition}-{file.first_offset:020d}-{number}.zstd.parquet"
    )


# -- documents ------------------------------------------------------------------------

_converter = cattrs.Converter()


def to_document(manifest: Manifest) -> dict[str, Any]:
    """As it is written down; keys of JSON are text."""
    members: dict[str, Any] = _converter.unstructure(manifest)
    members["next_offsets"] = {
        topic: {str(partition): offset for partition, offset in sorted(each.items())}
        for topic, each in manifest.next_offsets.items()
    }
    return members


def from_document(members: dict[str, Any]) -> Manifest:
    """
    The reverse.

    @raise ValueError: it is none.
    """
    try:
        return _converter.structure(members, Manifest)
    except Exception as problem:  # cattrs has no common base for what may go wrong.
        raise ValueError(f"it describes no commit of an archive ({type(problem).__name__})") from None
