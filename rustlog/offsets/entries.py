"""
Groups as records: what the offset stores C{file} and C{topic} write.

    ==============================  ========================================================
    key                             value
    ==============================  ========================================================
    C{<group>:<topic>:<partition>}  the offset, in decimal
    C{<group>:generation}           the latest generation that has committed, in decimal
    C{<group>:document}             the version of the document in decimal, a line feed, the
                                    document
    ==============================  ========================================================

Keys are read from the right: a group may contain colons, a topic can not.  A partition is a number, so
no offset is ever taken for something else.  A value that is null, or empty where a log
can not hold null, deletes.  What else belongs to an offset is in headers, where the log can hold them:
C{commit_time} (else it is the timestamp of the record), C{leader_epoch} and C{metadata}.

The last record of a key counts.  This is also how MiniKafka keeps its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from rustlog.errors import RequestRefused
from rustlog.log import records
from rustlog.log.batch import RecordBatch
from rustlog.model import MAX_OFFSET, Committed, Record, StoreLimits, TopicPartition
from rustlog.offsets.state import NO_GENERATION, Group, Groups

GENERATION = "generation"
DOCUMENT = "document"

COMMIT_TIME = "commit_time"
LEADER_EPOCH = "leader_epoch"
METADATA = "metadata"


class _NotUnderstood(Exception):
    """A record that nobody here has written."""


# -- writing ---------------------------------------------------------------------------


@frozen
class Writer:
    """Makes records, of what a log can hold."""

    _limits: StoreLimits

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: int | None
    ) -> list[Record]:
        """
        A commit.

        @param generation: to be remembered; C{None} if it is known already.
        """
        made = [self._offset(group, name, each) for name, each in offsets.items()]
        if generation is not None:
            made.append(Record(b"%d" % generation, _key(group, GENERATION)))
        return made

    def save(self, group: str, version: int, document: bytes) -> list[Record]:
        """A document."""
        return [Record(b"%d\n%b" % (version, document), _key(group, DOCUMENT))]

    def delete(self, name: str, partitions: Iterable[TopicPartition]) -> list[Record]:
        """Some of the offsets of a group are forgotten."""
        return [self._nothing(_key(name, each.topic, each.partition)) for each in partitions]

    def forget(self, name: str, group: Group) -> list[Record]:
        """
        Everything about a group is forgotten.  Something is written even where nothing is known: a log that
        has just failed may know of a commit that nobody was told of, and must not promise that it is gone.
        """
        made = self.delete(name, group.offsets)
        made.append(self._nothing(_key(name, GENERATION)))
        if group.version:
            made.append(self._nothing(_key(name, DOCUMENT)))
        return made

    def everything(self, name: str, group: Group) -> list[Record]:
        """All that is known of a group."""
        generation = None if group.generation == NO_GENERATION else group.generation
        made = self.commit(name, group.offsets, generation)
        if group.version:
            made += self.save(name, group.version, group.document)
        return made

    def _offset(self, group: str, name: TopicPartition, committed: Committed) -> Record:
        return Record(
            b"%d" % committed.offset,
            _key(group, name.topic, name.partition),
            tuple(_headers(committed)) if self._limits.headers else (),
            max(committed.commit_time, records.NO_TIMESTAMP),
        )

    def _nothing(self, key: bytes) -> Record:
        return Record(None if self._limits.null_values else b"", key)


def _key(group: str, *parts: object) -> bytes:
    return ":".join((group, *map(str, parts))).encode("utf-8", "surrogatepass")


def _headers(committed: Committed) -> Iterator[tuple[str, bytes]]:
    yield COMMIT_TIME, b"%d" % committed.commit_time
    if committed.leader_epoch != -1:
        yield LEADER_EPOCH, b"%d" % committed.leader_epoch
    if committed.metadata:
        yield METADATA, committed.metadata.encode("utf-8", "surrogatepass")


# -- reading ---------------------------------------------------------------------------


def replay(groups: Groups, batch: RecordBatch) -> int:
    """
    Do to C{groups} what the records of a batch say.

    @return: how many were not understood, and passed over.
    """
    if batch.is_control:
        return 0
    strange = done = 0
    try:
        for record in records.decode(batch):
            done += 1
            try:
                _apply(groups, record)
            except _NotUnderstood:
                strange += 1
    except RequestRefused:  # What is not made of records at all says nothing of groups, either.
        strange += batch.record_count - done
    return strange


def read_commit(record: Record) -> tuple[str, TopicPartition, Committed | None] | None:
    """
    The group, the partition, and the commit of a record; no commit where an offset is forgotten.  C{None}
    if the record is about something else.
    """
    try:
        group, kind = _split(_text(record.key))
        if isinstance(kind, TopicPartition):
            return group, kind, _committed(record) if record.value else None
    except _NotUnderstood:
        pass
    return None


def _apply(groups: Groups, record: Record) -> None:
    group, kind = _split(_text(record.key))
    if isinstance(kind, TopicPartition):
        _apply_offset(groups, group, kind, record)
    elif kind == GENERATION:
        groups.change(group).generation = _number(record.value) if record.value else NO_GENERATION
    else:
        version, _, document = (record.value or b"0\n").partition(b"\n")
        groups.save(group, _number(version), document)
    if not groups.get(group).is_listed and groups.get(group).generation == NO_GENERATION:
        groups.forget(group)


def _apply_offset(groups: Groups, group: str, name: TopicPartition, record: Record) -> None:
    if record.value:
        groups.commit(group, {name: _committed(record)}, None)
    else:
        groups.change(group).offsets.pop(name, None)


def _split(key: str) -> tuple[str, TopicPartition | str]:
    """A group, and what of it the key stands for."""
    rest, colon, last = key.rpartition(":")
    if colon and last in (GENERATION, DOCUMENT):
        return rest, last
    group, colon, topic = rest.rpartition(":")
    if not colon or not topic:
        raise _NotUnderstood
    return group, TopicPartition(topic, _number(last.encode()))


def _committed(record: Record) -> Committed:
    headers = dict(record.headers)
    return Committed(
        _number(record.value or b""),
        leader_epoch=_signed(headers.get(LEADER_EPOCH), -1),
        metadata=_text(headers.get(METADATA) or b""),
        commit_time=_signed(headers.get(COMMIT_TIME), record.timestamp),
    )


def _text(content: bytes | None) -> str:
    if content is None:
        raise _NotUnderstood
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise _NotUnderstood from None


def _number(content: bytes) -> int:
    if not content.isdigit() or len(content) > 19 or int(content) > MAX_OFFSET:
        raise _NotUnderstood
    return int(content)


def _signed(content: bytes | None, missing: int) -> int:
    if content is None:
        return missing
    return -1 if content == b"-1" else _number(content)
