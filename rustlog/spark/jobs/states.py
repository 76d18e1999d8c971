"""
What a job that writes into a topic remembers, so that it can be called again: who it is, and where it began.

How far it is stands in the topic; see L{rustlog.spark.jobs.delivery}.  The file is written once, before the
first record is sent, and once more at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import cattrs
from attrs import evolve, frozen

from rustlog.model import TopicPartition
from rustlog.spark.errors import TopicNotFound
from rustlog.spark.jobs.delivery import Destination, Producer
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.kafka import LATEST, KafkaClient
from rustlog.storage.documents import DamagedDocument, read_document, write_documents

if TYPE_CHECKING:
    from rustlog.interfaces import IFiles

FORMAT = "rustlog-delivery"
VERSION = 1

KEPT = {"retention.ms": "-1"}
"""
What topics are made with.  Records keep their timestamps: by the broker's own rules, old ones would be
deleted as soon as they have come, and nobody could tell how far the job was.
"""

_converter = cattrs.Converter()


@frozen
class JobState:
    """
    One job.

    @ivar job: C{replay}, C{rekey} or C{compact}.
    @ivar asked: what it was asked for, as text; a job that is asked for something else is another one.
    @ivar begins: for each target topic, where its partitions ended.
    @ivar fixed: what must not change when it goes on, though the world has.
    """

    job: str
    asked: dict[str, str]
    producer_id: int
    epoch: int
    begins: dict[str, list[int]]
    fixed: dict[str, list[list[int]]]
    is_finished: bool = False

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.epoch)

    def destination(self, topic: str, partition: int) -> Destination:
        return Destination(TopicPartition(topic, partition), self.begins[topic][partition])

    def finished(self) -> JobState:
        return evolve(self, is_finished=True)


def read_state(files: IFiles, path: PurePath) -> JobState | None:
    """
    What a job has written, if there was one.

    @raise JobFailed: the file is something else.
    """
    try:
        members = read_document(files, path)
        if members is None:
            return None
        if (members.pop("format", None), members.pop("version", None)) != (FORMAT, VERSION):
            raise JobFailed(f"{path} is not the state of a job of this version")
        return _converter.structure(members, JobState)
    except DamagedDocument as damage:
        raise JobFailed(f"{damage}; remove it to begin anew") from None


def write_state(files: IFiles, path: PurePath, state: JobState) -> None:
    """Durable when it returns."""
    members: dict[str, Any] = {"format": FORMAT, "version": VERSION, **_converter.unstructure(state)}
    write_documents(files, {path: members})


def prepare(
    client: KafkaClient,
    job: str,
    asked: Mapping[str, str],
    targets: Mapping[str, int],
    fixed: dict[str, list[list[int]]],
    appends: bool,
    *,
    config: Mapping[str, str] | None = None,
    exactly: bool = False,
) -> JobState:
    """
    Make the target topics, and a job that begins with their ends.

    @param targets: how many partitions each gets, if it does not exist.
    @param appends: whether they may have records.
    @param config: of topics that are made.
    @param exactly: whether those that exist must have that many; otherwise they may have more.
    @raise JobFailed: they have, or have other partitions.
    """
    begins = {
        topic: _ends(client, topic, partitions, exactly, config or {})
        for topic, partitions in sorted(targets.items())
    }
    for topic, ends in begins.items():
        if any(ends) and not appends:
            raise JobFailed(
                f"{topic} is not empty; say --append if the records are to come behind those that it has"
            )
    producer = client.init_producer()
    return JobState(job, dict(asked), producer.producer_id, producer.epoch, begins, fixed)


def _ends(
    client: KafkaClient, topic: str, partitions: int, exactly: bool, config: Mapping[str, str]
) -> list[int]:
    try:
        found = client.topic(topic).partitions
    except TopicNotFound:
        client.create_topic(topic, partitions, config={**KEPT, **config}, exists_ok=True)
        found = partitions
    if found < partitions or (exactly and found != partitions):
        raise JobFailed(
            f"{topic} has {found} partitions, not {partitions}; name another topic, or delete it first"
        )
    names = [TopicPartition(topic, index) for index in range(found)]
    ends = client.list_offsets(dict.fromkeys(names, LATEST))
    return [ends[each].offset for each in names]


def same_request(state: JobState, job: str, asked: Mapping[str, str], path: PurePath) -> None:
    """
    Make sure that a job goes on with what it has begun.

    @raise JobFailed: it was asked for something else before.
    """
    if state.job == job and state.asked == dict(asked):
        return
    before = ", ".join(f"{name} {value}" for name, value in state.asked.items())
    raise JobFailed(
        f"{path} belongs to another job ({state.job}: {before}); name another file with --state, or remove it"
    )
