"""
A directory in which batches wait until they are published, so that they are published once.

    <staging>/<application>/state.json              the last batch that was published
    <staging>/<application>/<batch>/plan.json       what exactly is published, and how
    <staging>/<application>/<batch>/*.batches       record batches back to back, one file for each task

Workers write the files, and the driver the rest.  All of it is on disk before anything that follows is done:
a file before its task is told to have succeeded, the plan before the first record is published, the state
after the last.  A plan is never replaced: whoever comes second takes the one that is there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attrs import asdict, define, field, frozen

from rustlog.model import TopicPartition
from rustlog.spark.errors import PipelineError

_STATE = "state.json"
_PLAN = "plan.json"
_SUFFIX = ".batches"
_NAME = re.compile(r"[\w.-]+\.batches")


class StagingLost(PipelineError):
    """Something that was staged is not there, or not what it was."""


@frozen
class StagedBatch:
    """
    One record batch in a file of a task.

    @ivar file: its name in the directory of the batch.
    """

    topic: str
    partition: int
    file: str
    position: int
    size: int
    records: int


@frozen
class PlannedPartition:
    """
    What is to be appended to one partition.

    @ivar start: where the partition ended when the plan was made: nothing of the plan is before it.
    """

    topic: str
    partition: int
    start: int
    batches: tuple[StagedBatch, ...]

    @property
    def target(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@frozen
class Plan:
    """
    What exactly is published.

    @ivar producer_id: who publishes it; the plan is all that this producer ever does.
    """

    producer_id: int
    producer_epoch: int
    partitions: tuple[PlannedPartition, ...]


@frozen
class State:
    """
    @ivar done: the last batch that was published completely; -1 before the first.
    @ivar query: the id of the query that has written it, if there was one.
    """

    done: int = -1
    query: str | None = None


class Staging:
    """The directory of one application."""

    def __init__(self, location: str, application: str) -> None:
        self._place = Path(location, quote(application, safe=""))

    # -- the application --

    def state(self) -> State:
        """How far it is."""
        document = _load(self._place / _STATE)
        return State() if document is None else State(int(document["done"]), document.get("query"))

    def save_state(self, state: State) -> None:
        """Remember how far it is, for ever."""
        self._place.mkdir(parents=True, exist_ok=True)
        _replace(self._place / _STATE, asdict(state))

    # -- a batch --

    def plan(self, batch: str) -> Plan | None:
        """The plan of a batch, if one was made."""
        document = _load(self._place / batch / _PLAN)
        return None if document is None else _plan(document)

    def propose(self, batch: str, plan: Plan) -> Plan:
        """Make this the plan of a batch, unless there is one already; the one that counts."""
        place = self._place / batch
        place.mkdir(parents=True, exist_ok=True)
        unfinished = place / f"{_PLAN}.{uuid.uuid4().hex}"
        _write(unfinished, json.dumps(asdict(plan)).encode())
        # A link fails when there is something of that name; renaming would put it out of the way.
        with suppress(FileExistsError):
            os.link(unfinished, place / _PLAN)
        unfinished.unlink()
        _sync_directory(place)
        found = self.plan(batch)
        assert found is not None
        return found

    def forget(self, batch: str) -> None:
        """Remove all that there is of a batch."""
        # The plan goes last but one: files without a plan are nothing, a plan without files would be trouble.
        place = self._place / batch
        with suppress(FileNotFoundError):
            (place / _PLAN).unlink()
        shutil.rmtree(place, ignore_errors=True)

    def forget_all(self) -> None:
        """Remove all that there is of the application."""
        shutil.rmtree(self._place, ignore_errors=True)

    def forget_before(self, batch: int) -> None:
        """Remove what is left of batches before this one, all of which were published."""
        with suppress(FileNotFoundError):
            for each in os.listdir(self._place):
                if each.isdecimal() and int(each) < batch:
                    self.forget(each)

    # -- files --

    @contextmanager
    def new_file(self, batch: str, task: str) -> Iterator[StagedFile]:
        """A file for a task; it is on disk when the block ends well, and gone otherwise."""
        place = self._place / batch
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{task}-{uuid.uuid4().hex}{_SUFFIX}"
        with path.open("xb") as stream:
            try:
                yield StagedFile(path.name, stream)
                stream.flush()
                os.fsync(stream.fileno())
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        for each in (place, place.parent, place.parent.parent):
            _sync_directory(each)

    def discard(self, batch: str, names: Iterable[str]) -> None:
        """Remove files of tasks whose batch is not going to be published; not if it may have been."""
        if self.plan(batch) is None:
            for name in names:
                (self._place / batch / name).unlink(missing_ok=True)

    def check(self, batch: str, staged: Iterable[StagedBatch]) -> None:
        """
        See that files are all there.

        @raise StagingLost: one is not, or is too short.
        """
        ends: dict[str, int] = {}
        for each in staged:
            ends[each.file] = max(ends.get(each.file, 0), each.position + each.size)
        for name, end in ends.items():
            path = self._place / batch / name
            if not path.exists() or path.stat().st_size < end:
                raise StagingLost(
                    f"{path}, which a worker has written, is not to be seen by the driver: the directory "
                    "has to be shared by both (option stagingLocation)"
                )

    def read(self, batch: str, wanted: StagedBatch) -> bytes:
        """
        The bytes of one record batch.

        @raise StagingLost: they are not there.
        """
        if not _NAME.fullmatch(wanted.file):
            raise StagingLost(f"the plan of batch {batch} names a file {wanted.file!r}")
        path = self._place / batch / wanted.file
        try:
            with path.open("rb") as stream:
                stream.seek(wanted.position)
                data = stream.read(wanted.size)
        except OSError as error:
            raise StagingLost(f"{path} of batch {batch} can not be read: {error.strerror}") from None
        if len(data) != wanted.size:
            raise StagingLost(f"{path} of batch {batch} is shorter than it was")
        return data


@define
class StagedFile:
    """A file while it is written."""

    name: str
    _stream: Any
    batches: list[StagedBatch] = field(factory=list)

    def add(self, target: TopicPartition, data: bytes, records: int) -> None:
        """Append one record batch."""
        position = self._stream.tell()
        self._stream.write(data)
        staged = StagedBatch(target.topic, target.partition, self.name, position, len(data), records)
        self.batches.append(staged)


def _plan(document: dict[str, Any]) -> Plan:
    return Plan(
        document["producer_id"],
        document["producer_epoch"],
        tuple(
            PlannedPartition(
                each["topic"],
                each["partition"],
                each["start"],
                tuple(StagedBatch(**batch) for batch in each["batches"]),
            )
            for each in document["partitions"]
        ),
    )


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StagingLost(f"{path} is damaged: {error}") from None


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _replace(path: Path, document: Any) -> None:
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    _write(unfinished, json.dumps(document).encode())
    unfinished.replace(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    """Names are on disk when their directory is."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
