"""
What is known of groups, in memory: the same for every offset store, wherever it writes.

Nothing here waits, writes or answers.  The rules of generations and versions are functions of
what is current; a store that writes says what that is while something is still under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from rustlog.errors import StaleGeneration, VersionConflict
from rustlog.model import Committed, TopicPartition

NO_GENERATION = -1


@define
class Group:
    """What is known of one group."""

    offsets: dict[TopicPartition, Committed] = field(factory=dict)
    generation: int = NO_GENERATION
    version: int = 0
    document: bytes = b""

    @property
    def is_listed(self) -> bool:
        """Whether there is anything that a client would want to know."""
        return bool(self.offsets or self.version)

    def older_than(self, before_ms: int) -> list[TopicPartition]:
        """Those whose commit says that it came before that time."""
        return [name for name, each in self.offsets.items() if 0 <= each.commit_time < before_ms]


_NOBODY = Group()


class Groups:
    """All groups of one store."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    # -- looking --

    def get(self, name: str) -> Group:
        """One of them, not to be changed; an empty one if it is not known."""
        return self._groups.get(name, _NOBODY)

    def names(self) -> tuple[str, ...]:
        """Those that have offsets or a document, sorted."""
        return tuple(sorted(name for name, group in self._groups.items() if group.is_listed))

    def everyone(self) -> list[str]:
        """All of whom anything is known."""
        return list(self._groups)

    def offsets(
        self, name: str, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, Committed]:
        """A copy of what a group has committed, in some partitions or in all."""
        offsets = self.get(name).offsets
        if partitions is None:
            return dict(offsets)
        return {each: offsets[each] for each in partitions if each in offsets}

    # -- changing --

    def change(self, name: str) -> Group:
        """One of them, to be changed; made if need be."""
        return self._groups.setdefault(name, Group())

    def commit(self, name: str, offsets: Mapping[TopicPartition, Committed], generation: int | None) -> None:
        """The last commit wins, whatever its value."""
        if not offsets and generation is None:
            return
        group = self.change(name)
        group.offsets.update(offsets)
        if generation is not None:
            group.generation = max(group.generation, generation)

    def save(self, name: str, version: int, document: bytes) -> None:
        """Remember a document under its new version."""
        group = self.change(name)
        group.version, group.document = version, document

    def delete(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget some partitions; a group of which nothing is left is forgotten as a whole."""
        group = self._groups.get(name)
        if group is None:
            return
        for each in partitions:
            group.offsets.pop(each, None)
        if not group.is_listed:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Forget everything about a group."""
        self._groups.pop(name, None)


# -- rules -----------------------------------------------------------------------------


def check_generation(name: str, generation: int | None, current: int) -> None:
    """
    Judge a commit.

    @raise StaleGeneration: it comes from an earlier generation.
    """
    if generation is not None and generation < current:
        raise StaleGeneration(name, generation)


def check_version(name: str, version: int, current: int) -> None:
    """
    Judge a document that is to be saved.

    @raise VersionConflict: who saves it does not know the current one.
    """
    if version != current:
        raise VersionConflict(name, version, current)
