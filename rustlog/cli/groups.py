"""C{rustlog group}: consumer groups and their offsets."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator

import attrs

from rustlog.cli import resets
from rustlog.cli.arguments import Commands, Scope, add_yes, milliseconds, natural, scope, timestamp
from rustlog.cli.output import time_text
from rustlog.cli.resets import Progress, Reset, Target
from rustlog.cli.session import CommandFailed, Session
from rustlog.client.errors import GroupNotFound
from rustlog.wire.rustlog.messages import DescribedOffset, DescribedPartition


def add_commands(commands: Commands) -> None:
    """Declare them."""
    groups = commands.group("group", "Look at consumer groups, and move or delete their offsets.")
    groups.add("list", list_groups, "List groups.")
    describe = groups.add(
        "describe", describe_group, "Show how far a group has come, and how far it has to go."
    )
    describe.add_argument("group", metavar="GROUP")
    _add_reset(groups)
    delete = groups.add(
        "delete", delete_group, "Forget a group, or how far it has come in a topic.", json=False
    )
    delete.add_argument("group", metavar="GROUP")
    delete.add_argument("-t", "--topic", type=scope, metavar="TOPIC[:PARTITION]", help="only there")
    add_yes(delete)


def _add_reset(groups: Commands) -> None:
    parser = groups.add(
        "reset-offsets",
        reset_offsets,
        "Let a group go on from somewhere else; without --execute, only print the plan.",
    )
    parser.add_argument("group", metavar="GROUP")
    where = parser.add_argument_group("where").add_mutually_exclusive_group(required=True)
    where.add_argument(
        "-t", "--topic", type=scope, action="append", metavar="TOPIC[:PARTITION]", help="may be repeated"
    )
    where.add_argument("--all-topics", action="store_true", help="wherever the group has committed something")
    _add_targets(parser)
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument("--dry-run", action="store_true", help="do nothing, which is the default")


def _add_targets(parser: ArgumentParser) -> None:
    to = parser.add_argument_group("to").add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true", help="the first record that there is")
    to.add_argument("--to-latest", action="store_true", help="what comes from now on")
    to.add_argument("--to-offset", type=natural, metavar="OFFSET", help="this offset")
    to.add_argument("--to-datetime", type=timestamp, metavar="TIME", help="the first record since that time")
    to.add_argument("--shift-by", type=int, metavar="N", help="so many records forward, or back if negative")


def list_groups(session: Session) -> None:
    found = session.client.list_groups()
    session.show(("GROUP",), [(each,) for each in found], [{"group_id": each} for each in found])


def describe_group(session: Session) -> None:
    found = session.client.describe_group(session.options.group)
    rows = [
        (each.topic, each.partition, each.offset, each.high_watermark, each.lag, time_text(each.commit_time))
        for each in found
    ]
    session.show(
        ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "COMMITTED"),
        rows,
        {"group_id": session.options.group, "offsets": [attrs.asdict(each) for each in found]},
    )


def delete_group(session: Session) -> None:
    group, where = session.options.group, session.options.topic
    if where is None:
        session.client.describe_group(group)  # It must exist.
        session.confirm(f"delete group {group}")
        session.client.delete_group(group)
        session.write(f"deleted group {group}\n")
    else:
        session.confirm(f"forget how far group {group} has come in {where}")
        session.client.delete_group(group, where.topic, where.partition)
        session.write(f"deleted the offsets of group {group} in {where}\n")


# -- resetting --


def reset_offsets(session: Session) -> None:
    options = session.options
    if options.execute and options.dry_run:
        raise CommandFailed("say either --execute or --dry-run", status=2)
    target = _target(session)
    plan = [resets.reset(each, target) for each in _progress(session)]
    if options.execute:
        for each in plan:
            session.client.commit(options.group, each.before.topic, each.before.partition, each.offset)
    _show_plan(session, plan)
    if not options.execute and not options.json:
        session.remark("nothing was changed; say --execute to do it")


def _show_plan(session: Session, plan: list[Reset]) -> None:
    rows = [
        (
            each.before.topic,
            each.before.partition,
            each.before.offset,
            each.offset,
            each.note or ("" if each.is_change else "as it was"),
        )
        for each in plan
    ]
    session.show(
        ("TOPIC", "PARTITION", "OFFSET", "NEW OFFSET", "NOTE"),
        rows,
        {
            "group_id": session.options.group,
            "executed": session.options.execute,
            "offsets": [
                {
                    "topic": each.before.topic,
                    "partition": each.before.partition,
                    "offset": each.before.offset,
                    "new_offset": each.offset,
                    "note": each.note,
                }
                for each in plan
            ],
        },
    )


def _target(session: Session) -> Target:
    options, client = session.options, session.client
    if options.to_earliest:
        return resets.to_earliest
    if options.to_latest:
        return resets.to_latest
    if options.to_offset is not None:
        return resets.to_offset(options.to_offset)
    if options.shift_by is not None:
        return resets.shift_by(options.shift_by)
    since = milliseconds(options.to_datetime, session.console.local_time)
    return resets.to_time(lambda topic, partition: client.list_offsets(topic, partition, since).offset)


def _progress(session: Session) -> Iterator[Progress]:
    """How far the group is, in all partitions in question, whether it has begun there or not."""
    try:
        known = session.client.describe_group(session.options.group)
    except GroupNotFound:
        if session.options.all_topics:
            raise
        known = []
    committed = {(each.topic, each.partition): each for each in known}
    if session.options.all_topics:
        for each in known:
            if each.high_watermark is not None and each.log_start_offset is not None:
                yield Progress(
                    each.topic, each.partition, each.offset, each.log_start_offset, each.high_watermark
                )
        return
    for where in session.options.topic:
        for partition in _partitions(session, where):
            found: DescribedOffset | None = committed.get((where.topic, partition.partition))
            yield Progress(
                where.topic,
                partition.partition,
                None if found is None else found.offset,
                partition.log_start_offset,
                partition.high_watermark,
            )


def _partitions(session: Session, where: Scope) -> list[DescribedPartition]:
    session.options.looking_for = where.topic
    described = session.client.describe_topic(where.topic).partitions
    chosen = [each for each in described if where.partition in (None, each.partition)]
    if not chosen:
        raise CommandFailed(
            f"topic {where.topic} has no partition {where.partition}; it has 0 to {len(described) - 1}"
        )
    return chosen
