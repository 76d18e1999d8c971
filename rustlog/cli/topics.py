"""C{rustlog topic}: topics."""

from __future__ import annotations

from argparse import ArgumentParser

import attrs

from rustlog.cli.arguments import Commands, add_yes, natural, positive, setting
from rustlog.cli.output import count, human_size, table
from rustlog.cli.session import CommandFailed, Session
from rustlog.client.errors import AlreadyExists
from rustlog.wire.rustlog.messages import DescribeTopicResponse


def add_commands(commands: Commands) -> None:
    """Declare them."""
    topics = commands.group("topic", "Make, look at, change and delete topics.")
    _add_create(topics)
    listing = topics.add("list", list_topics, "List topics.")
    listing.add_argument("--internal", action="store_true", help="those of the broker itself, too")
    describe = topics.add("describe", describe_topic, "Show all about a topic.")
    describe.add_argument("topic", metavar="TOPIC")
    describe.add_argument(
        "--settings", action="store_true", help="show all settings, not only the topic's own"
    )
    _add_alter(topics)
    delete = topics.add("delete", delete_topics, "Delete topics, with all their records.", json=False)
    delete.add_argument("topic", metavar="TOPIC", nargs="+")
    add_yes(delete)
    trim = topics.add("delete-records", delete_records, "Delete the oldest records of a partition.")
    trim.add_argument("topic", metavar="TOPIC")
    trim.add_argument(
        "-p", "--partition", type=natural, required=True, metavar="N", help="of which partition"
    )
    trim.add_argument("--before", type=natural, required=True, metavar="OFFSET", help="the first one to keep")
    add_yes(trim)


def _add_create(topics: Commands) -> None:
    parser = topics.add("create", create_topic, "Make a topic.")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partitions", type=positive, metavar="N", help="[default: as the broker likes]"
    )
    _add_set(parser)
    parser.add_argument("--if-not-exists", action="store_true", help="it is fine if it exists already")


def _add_alter(topics: Commands) -> None:
    parser = topics.add("alter", alter_topic, "Add partitions to a topic, change its settings.")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-p", "--partitions", type=positive, metavar="N", help="how many it is to have")
    _add_set(parser)
    parser.add_argument(
        "-u", "--unset", action="append", default=[], metavar="KEY", help="a setting to leave to the broker"
    )


def _add_set(parser: ArgumentParser) -> None:
    help_text = "a setting of the topic; may be repeated"
    parser.add_argument(
        "-s", "--set", type=setting, action="append", default=[], metavar="KEY=VALUE", help=help_text
    )


def create_topic(session: Session) -> None:
    options = session.options
    try:
        made = session.client.create_topic(options.topic, options.partitions, dict(options.set) or None)
    except AlreadyExists:
        if not options.if_not_exists:
            raise
        session.tell(f"topic {options.topic} exists already\n", {"topic": options.topic, "created": False})
        return
    session.tell(
        f"created topic {made.topic} with {count(made.partitions, 'partition')}{_config(made.config)}\n",
        {**attrs.asdict(made), "created": True},
    )


def list_topics(session: Session) -> None:
    found = session.client.list_topics()
    shown = [each for each in found if session.options.internal or not each.internal]
    session.show(
        ("TOPIC", "PARTITIONS"),
        [(each.topic, each.partitions) for each in shown],
        [attrs.asdict(each) for each in shown],
    )


def describe_topic(session: Session) -> None:
    found = session.client.describe_topic(session.options.topic)
    session.tell(_description(found, with_settings=session.options.settings), attrs.asdict(found))


def _description(topic: DescribeTopicResponse, with_settings: bool) -> str:
    records = sum(each.high_watermark - each.log_start_offset for each in topic.partitions)
    size = human_size(sum(each.size for each in topic.partitions))
    lines = [
        f"topic:       {topic.topic}{' (internal)' if topic.internal else ''}",
        f"id:          {topic.id}",
        f"partitions:  {len(topic.partitions)}",
        f"records:     {records}, {size}",
        *(f"setting:     {name}={value}" for name, value in sorted(topic.config.items())),
    ]
    if with_settings:
        inherited = sorted(set(topic.settings.items()) - set(topic.config.items()))
        lines += [f"default:     {name}={value}" for name, value in inherited]
    rows = [
        (each.partition, each.log_start_offset, each.high_watermark, each.size, each.segments)
        for each in topic.partitions
    ]
    return "\n".join(lines) + "\n\n" + table(("PARTITION", "START", "END", "BYTES", "SEGMENTS"), rows)


def alter_topic(session: Session) -> None:
    options = session.options
    changes: dict[str, object] = {**dict(options.set), **dict.fromkeys(options.unset)}
    if not changes and options.partitions is None:
        raise CommandFailed("nothing to change: say --partitions, --set or --unset", status=2)
    now = session.client.alter_topic(options.topic, options.partitions, changes or None)
    session.tell(
        f"topic {now.topic} has {count(now.partitions, 'partition')}{_config(now.config)}\n",
        attrs.asdict(now),
    )


def delete_topics(session: Session) -> None:
    for topic in session.options.topic:
        session.options.deleting = topic
        found = session.client.describe_topic(topic)
        records = sum(each.high_watermark - each.log_start_offset for each in found.partitions)
        size = f"{count(len(found.partitions), 'partition')} and {count(records, 'record')}"
        session.confirm(f"delete topic {topic} with {size}")
        session.client.delete_topic(topic)
        session.write(f"deleted topic {topic}\n")


def delete_records(session: Session) -> None:
    options = session.options
    session.confirm(
        f"delete the records of {options.topic}-{options.partition} before offset {options.before}"
    )
    start = session.client.delete_records(options.topic, options.partition, options.before)
    session.tell(
        f"{options.topic}-{options.partition} begins at offset {start} now\n",
        {"topic": options.topic, "partition": options.partition, "log_start_offset": start},
    )


def _config(config: object) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in sorted(dict(config).items()))  # type: ignore[call-overload]
    return f" and {settings}" if settings else ""
