"""
Topics that come into being because somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Union

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.logger import Logger

from rustlog.errors import RustlogError, TopicNotFound
from rustlog.judging import check_topic_name
from rustlog.model import TopicInfo
from rustlog.results import Result
from rustlog.wire.creating import NOT_OURS_TO_MAKE, create_or_find
from rustlog.wire.kafka.calls import Call

_log = Logger()

Found = dict[str, Union[TopicInfo, RustlogError]]


def find_topics(call: Call, names: Iterable[str], *, may_create: bool) -> Result[Found]:
    """Each topic, made if need be and allowed; or why there is none."""
    found: Found = {}
    missing = []
    for name in dict.fromkeys(names):
        try:
            found[name] = call.services.broker.topic(call.context, name)
        except TopicNotFound as error:
            found[name] = error
            missing.append(name)
    if not missing:
        return found
    return _create_all(call, missing, found, may_create and call.services.config.auto_create_topics_enable)


def _create_all(call: Call, missing: list[str], found: Found, may_create: bool) -> Result[Found]:
    wanted = []
    for name in missing:
        try:
            check_topic_name(name)
        except RustlogError as error:
            found[name] = error
        else:
            if may_create and name not in NOT_OURS_TO_MAKE:
                wanted.append(name)
    return _create(call, wanted, found) if wanted else found


@inlineCallbacks
def _create(call: Call, wanted: list[str], found: Found) -> Generator[Deferred[Any], Any, Found]:
    broker = call.services.broker
    for name in wanted:
        _log.info("Creating new topic: {topic}", topic=name)
        try:
            found[name] = yield create_or_find(broker, call.context, name)
        except RustlogError as error:
            found[name] = error
    return found
