"""
What to do next: errors in one line that name the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TypeVar

from rustlog.cli.session import Session
from rustlog.client import errors
from rustlog.client.errors import ClientError


def explain(error: ClientError, session: Session) -> str:
    """One line for people."""
    for kind, advise in _ADVICE.items():
        if isinstance(error, kind):
            return f"{error}; {advise(session)}"
    return str(error)


def _start_a_broker(session: Session) -> str:
    return "start a broker with 'twistd -n rustlog', or name another one with --bootstrap HOST:PORT"


def _look_again(session: Session) -> str:
    return "look at what is there before you try again"


def _choose_topic(session: Session) -> str:
    topic = getattr(session.options, "looking_for", None) or session.options.topic
    if isinstance(topic, list):
        topic = session.options.deleting
    topics = [each.topic for each in _if_possible(session.client.list_topics)]
    if topic in topics:
        return f"'rustlog topic describe {topic}' shows its partitions"
    likely = _likely(topic, topics)
    return f"{likely}'rustlog topic list' shows all, 'rustlog topic create {topic}' makes it"


def _choose_group(session: Session) -> str:
    likely = _likely(session.options.group, _if_possible(session.client.list_groups))
    return f"{likely}'rustlog group list' shows all"


def _stop_members(session: Session) -> str:
    return "stop its consumers first"


def _describe(session: Session) -> str:
    return f"'rustlog topic describe {session.options.topic}' shows it"


def _choose_offset(session: Session) -> str:
    if hasattr(session.options, "offset_reset"):
        return "begin at --offset earliest, or say --offset-reset earliest if that is where a group was"
    return "'rustlog topic describe' shows from where to where a partition goes"


def _ask_for_help(session: Session) -> str:
    return "is that port the one of the broker's RustLog protocol?"


def _look_at_log(session: Session) -> str:
    return "the log of the broker says more"


T = TypeVar("T")

_ADVICE: dict[type[ClientError], Callable[[Session], str]] = {
    errors.ConnectionFailed: _start_a_broker,
    errors.ConnectionLost: _look_again,
    errors.TopicNotFound: _choose_topic,
    errors.GroupNotFound: _choose_group,
    errors.GroupInUse: _stop_members,
    errors.AlreadyExists: _describe,
    errors.OffsetOutOfRange: _choose_offset,
    errors.NotUnderstood: _ask_for_help,
    errors.BrokerFailed: _look_at_log,
}


def _if_possible(ask: Callable[[], list[T]]) -> list[T]:
    """Advice is worth a question, but not another error."""
    try:
        return ask()
    except ClientError:
        return []


def _likely(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}? " if close else ""
