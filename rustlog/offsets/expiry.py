"""
L{Expiry}: offsets that nobody needs any more are forgotten, a few groups at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.logger import Logger

from rustlog.interfaces import IOffsetExpiry, IOffsetStore, ITopicCatalog, IWallClock
from rustlog.model import Committed, TopicPartition

GROUPS_PER_STEP = 100
"""How many groups one step looks over."""

MINUTE_MS = 60_000


def nobody(group: str) -> bool:
    """Where there is no coordinator, no group has members."""
    return False


def keep(group: str) -> Deferred[None]:
    """Where there is no coordinator, there is nothing to know of a group but its offsets."""
    return succeed(None)


@define(eq=False)
class Expiry:
    """
    Forgets what groups have committed.

    @ivar is_active: whether a group has members.
    @ivar forget_group: forgets a group, if it has neither members nor offsets any more.
    """

    _offsets: IOffsetStore
    _catalog: ITopicCatalog
    _wall: IWallClock
    _retention_minutes: int
    is_active: Callable[[str], bool] = nobody
    forget_group: Callable[[str], Deferred[None]] = keep
    _left: list[str] = field(factory=list, init=False)

    _log = Logger()

    @inlineCallbacks
    def step(self) -> Generator[Deferred[Any], Any, bool]:
        """
        Deferred bool: look over some groups, and forget what is older than C{offsets.retention.minutes} of
        those without active members; True while there are more.
        """
        if not self._left:
            self._left = list((yield self._offsets.groups()))
        step = self._left[-GROUPS_PER_STEP:]
        del self._left[-GROUPS_PER_STEP:]
        for group in step:
            if not self.is_active(group):
                yield self._expire(group)
        return bool(self._left)

    @inlineCallbacks
    def _expire(self, group: str) -> Generator[Deferred[Any], Any, None]:
        before_ms = self._wall.now_ms() - self._retention_minutes * MINUTE_MS
        expiring: Any = IOffsetExpiry(self._offsets, None)
        count = 0 if expiring is None else (yield expiring.expire(group, before_ms))
        if count:
            self._log.info("forgot {count} old offsets of {group}", count=count, group=group)
        yield self.forget_group(group)

    @inlineCallbacks
    def forget_orphans(self) -> Generator[Deferred[Any], Any, None]:
        """
        Forget what belongs to topics that are gone, before anybody can create another of that name, which
        would begin at 0: a crash may have come between the end of a topic and that of its offsets.  Never
        fails: without that, too, there is much that a broker can do.
        """
        try:
            yield self._forget_orphans()
        except Exception as error:  # Stores are plugins, and fail in many ways.
            self._log.error("offsets of topics that are gone are still there: {error}", error=error)

    @inlineCallbacks
    def _forget_orphans(self) -> Generator[Deferred[Any], Any, None]:
        known: dict[str, bool] = {}
        for group in (yield self._offsets.groups()):
            committed: dict[TopicPartition, Committed] = yield self._offsets.fetch(group)
            for topic in {each.topic for each in committed} - known.keys():
                # The authority knows: another broker may have created it.
                known[topic] = (yield self._catalog.refresh(topic)) is not None
            orphans = [each for each in committed if not known[each.topic]]
            if orphans:
                yield self._offsets.delete(group, orphans)
                self._log.info(
                    "forgot {count} offsets of {group} in topics that are gone",
                    count=len(orphans), group=group,
                )  # fmt: skip
