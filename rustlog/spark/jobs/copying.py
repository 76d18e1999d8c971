"""
What C{rekey} and C{compact} have in common: one topic is read as it was when the job was called for the
first time, so that it can be called again and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from attrs import evolve, field, frozen

from rustlog.environment.files import RealFiles
from rustlog.log.codecs import Codec
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.planning import total_bytes, total_records
from rustlog.spark.jobs.routing import Send
from rustlog.spark.jobs.sources import PIECE_BYTES, Extent, Piece, Source, chosen_topics
from rustlog.spark.jobs.states import JobState, prepare, read_state, same_request, write_state
from rustlog.spark.kafka import KafkaClient
from rustlog.spark.settings import ClientSettings


@frozen(kw_only=True)
class CopyOptions:
    """
    @ivar partitions: of the target; C{None}: as many as it has, or else as the source has.
    @ivar config: of a target that is made.
    """

    topic: str
    target: str
    settings: ClientSettings
    state: str
    partitions: int | None = None
    codec: Codec = Codec.NONE
    appends: bool = False
    config: Mapping[str, str] = field(factory=dict)


@frozen
class CopyPlan:
    """What is read, and into how many partitions it goes."""

    source: str
    partitions: int
    extents: Sequence[Extent]
    pieces: Sequence[Piece]

    @property
    def size(self) -> int:
        return total_bytes(self.pieces)

    @property
    def records(self) -> int:
        return total_records(self.pieces)


def plan_copy(
    source: Source, topic: str, target: str | None, partitions: int | None, piece_bytes: int = PIECE_BYTES
) -> CopyPlan:
    """
    See what there is.

    @raise JobFailed: there is no such topic, or it would be copied into itself.
    """
    if topic == target:
        raise JobFailed(f"{topic} can not be copied into itself; name another topic")
    count = partitions or chosen_topics(source, [topic])[topic]
    return CopyPlan(str(source), count, source.extents(topic), source.pieces(topic, {}, piece_bytes))


def begin_copy(
    job: str, options: CopyOptions, plan: CopyPlan, asked: dict[str, str]
) -> tuple[JobState, CopyPlan]:
    """
    What the job has remembered, or a new one; and what it was to read when it began.

    @raise JobFailed: the target is not empty, or something else was begun before.
    """
    files, path = RealFiles(), PurePath(options.state)
    state = read_state(files, path)
    if state is None:
        fixed = {options.topic: [[each.start, each.end] for each in plan.extents]}
        with KafkaClient(options.settings) as client:
            targets = {options.target: plan.partitions}
            exactly = options.partitions is not None
            state = prepare(
                client, job, asked, targets, fixed, options.appends, config=options.config, exactly=exactly
            )
        write_state(files, path, state)
    same_request(state, job, asked, path)
    return state, evolve(plan, pieces=as_it_was(plan, state.fixed[options.topic]))


def as_it_was(plan: CopyPlan, bounds: Sequence[Sequence[int]]) -> list[Piece]:
    """
    The pieces within the bounds of the first call.

    @raise JobFailed: some of it is gone.
    """
    for extent, (start, _) in zip(plan.extents, bounds, strict=False):
        if extent.start > start:
            raise JobFailed(
                f"offsets {start} to {extent.start - 1} of {extent.name} are gone since the job began; "
                "remove the target and the state, and begin anew"
            )
    kept = []
    for piece in plan.pieces:
        end = bounds[piece.partition][1] if piece.partition < len(bounds) else 0
        if piece.start < end:
            kept.append(cut(piece, min(piece.end, end)))
    return kept


def cut(piece: Piece, end: int) -> Piece:
    """A piece that ends earlier."""
    if end == piece.end:
        return piece
    place = piece.place if isinstance(piece.place, ClientSettings) else evolve(piece.place, to_offset=end)
    return evolve(piece, end=end, place=place)


def sender(options: CopyOptions, state: JobState, now_ms: int) -> Send:
    begins = tuple(state.begins[options.target])
    return Send(options.target, begins, state, options.settings, options.codec, now_ms)
