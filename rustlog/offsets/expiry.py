"""
L{Expiry}: offsets that nobody needs any more are forgotten, a few groups at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.logger import Logger

from rustlog.interfaces import IOffsetExpiry, IOffsetStore, ITopicCatalog, IWallClock
from rustlog.model import Committed, TopicPartition

GROUPS_PER_STEP = 100
"""How many groups one step looks over."""

MINUTE_MS = 60_000


def nobody(group: str) -> bool:
    """Where there is no coordinator, no group has members."""
    return False


@define(eq=False)
class Expiry:
    """
    Forgets what is older than C{offsets.retention.minutes}, of groups without active members; and, once
    after the start, what belongs to topics that are gone: a crash may have come between the end of a topic
    and that of its offsets, and a later topic of that name begins at 0 again.

    @ivar is_active: whether a group has members.
    """

    _offsets: IOffsetStore
    _catalog: ITopicCatalog
    _wall: IWallClock
    _retention_minutes: int
    is_active: Callable[[str], bool] = nobody
    _left: list[str] = field(factory=list, init=False)
    _is_first_round: bool = field(default=True, init=False)
    _gone: dict[str, bool] = field(factory=dict, init=False)

    _log = Logger()

    @inlineCallbacks
    def step(self) -> Generator[Deferred[Any], Any, bool]:
        """Deferred bool: look over some groups; True while there are more."""
        if not self._left:
            self._left = list((yield self._offsets.groups()))
        step = self._left[-GROUPS_PER_STEP:]
        del self._left[-GROUPS_PER_STEP:]
        for group in step:
            if self._is_first_round:
                yield self._forget_orphans(group)
            if not self.is_active(group):
                yield self._expire(group)
        if not self._left:
            self._is_first_round = False
            self._gone.clear()
        return bool(self._left)

    @inlineCallbacks
    def _expire(self, group: str) -> Generator[Deferred[Any], Any, None]:
        before_ms = self._wall.now_ms() - self._retention_minutes * MINUTE_MS
        expiring: Any = IOffsetExpiry(self._offsets, None)
        count = 0 if expiring is None else (yield expiring.expire(group, before_ms))
        if count:
            self._log.info("forgot {count} old offsets of {group}", count=count, group=group)

    @inlineCallbacks
    def _forget_orphans(self, group: str) -> Generator[Deferred[Any], Any, None]:
        committed: dict[TopicPartition, Committed] = yield self._offsets.fetch(group)
        for topic in {each.topic for each in committed}:
            yield self._look_for(topic)
        orphans = [each for each in committed if self._gone.get(each.topic)]
        if orphans:
            yield self._offsets.delete(group, orphans)
            self._log.info(
                "forgot {count} offsets of {group} in topics that are gone", count=len(orphans), group=group
            )

    @inlineCallbacks
    def _look_for(self, topic: str) -> Generator[Deferred[Any], Any, None]:
        """Find out whether a topic is gone."""
        if self._catalog.get(topic) is not None:
            self._gone[topic] = False
        elif topic not in self._gone:
            # The authority knows: another broker may have created it.
            self._gone[topic] = (yield self._catalog.refresh(topic)) is None
