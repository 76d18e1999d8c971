"""
Making topics because somebody wants to write to them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.broker import Broker
from rustlog.errors import TopicExists
from rustlog.model import RequestContext, TopicInfo

NOT_OURS_TO_MAKE = frozenset({"__consumer_offsets", "__transaction_state"})
"""Internal topics: who needs them makes them, with settings of their own."""


@inlineCallbacks
def create_or_find(
    broker: Broker, context: RequestContext, name: str
) -> Generator[Deferred[Any], Any, TopicInfo]:
    """A topic of that name.  Fails as C{create_topic} does, and with C{TopicNotFound}."""
    try:
        return (yield broker.create_topic(context, name))
    except TopicExists:
        # Somebody else was faster; and may have deleted it by now.
        return broker.topic(context, name)
