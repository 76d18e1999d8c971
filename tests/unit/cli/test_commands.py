"""Tests for the commands of L{rustlog.cli}, against a broker without a network."""

from __future__ import annotations

import json
from typing import Any

from rustlog.cli.completion import SHELLS
from rustlog.client.partitioning import partition_for
from rustlog.model import Record
from tests.unit.cli.harness import ToolCase


class TopicTests(ToolCase):
    """C{rustlog topic}."""

    def test_create(self) -> None:
        """A topic is made, with settings; one that exists is fine if that is said."""
        out = self.says(
            "topic", "create", "audit", "--partitions=3", "--set=retention.ms=5", "-s", "segment.ms=7"
        )
        self.assertEqual(out, "created topic audit with 3 partitions and retention.ms=5, segment.ms=7\n")
        self.assertIn("'rustlog topic describe audit' shows it", self.fails("topic", "create", "audit"))
        self.assertEqual(
            self.says("topic", "create", "audit", "--if-not-exists"), "topic audit exists already\n"
        )

    def test_list(self) -> None:
        """A table, or JSON; those of the broker itself only if they are wanted."""
        self.assertEqual(self.says("topic", "list"), "TOPIC   PARTITIONS\norders           2\n")
        listed = json.loads(self.says("topic", "list", "--json", "--internal"))
        self.assertIn({"topic": "orders", "partitions": 2, "internal": False}, listed)

    def test_describe(self) -> None:
        """All about one."""
        self.client.produce("orders", [b"one"], 1)
        out = self.says("topic", "describe", "orders", "--settings")
        for part in ("topic:       orders\n", "records:     1, ", "default:     retention.ms=604800000\n"):
            self.assertIn(part, out)
        described = json.loads(self.says("topic", "describe", "orders", "--json"))
        self.assertEqual([each["high_watermark"] for each in described["partitions"]], [0, 1])

    def test_alter(self) -> None:
        """Partitions are added, settings set and unset."""
        out = self.says("topic", "alter", "orders", "-p", "3", "--set", "retention.ms=5")
        self.assertEqual(out, "topic orders has 3 partitions and retention.ms=5\n")
        self.assertEqual(
            self.says("topic", "alter", "orders", "-u", "retention.ms"), "topic orders has 3 partitions\n"
        )
        self.assertIn("nothing to change", self.fails("topic", "alter", "orders", status=2))

    def test_delete(self) -> None:
        """Nothing is deleted that was not meant."""
        self.client.produce("orders", [b"one"])
        question = "delete topic orders with 2 partitions and 1 record?"
        self.assertEqual(
            self.fails("topic", "delete", "orders", status=2),
            f"rustlog: {question} Say --yes if you mean it\n",
        )
        refused = self.fails("topic", "delete", "orders", stdin=b"n\n", terminal=True)
        self.assertEqual(refused, f"{question} [y/N] rustlog: nothing was done\n")
        self.assertEqual(
            self.says("topic", "delete", "orders", stdin=b"y\n", terminal=True), "deleted topic orders\n"
        )
        self.assertIn("topic not found: orders", self.fails("topic", "delete", "orders", "--yes"))

    def test_delete_records(self) -> None:
        """The oldest records go."""
        self.client.produce("orders", [b"1", b"2", b"3"])
        out = self.says("topic", "delete-records", "orders", "-p0", "--before=2", "--yes")
        self.assertEqual(out, "orders-0 begins at offset 2 now\n")


class ProduceTests(ToolCase):
    """C{rustlog produce}."""

    def stored(self, partition: int = 0) -> list[Record]:
        return self.client.fetch("orders", partition, 0).records

    def values(self, partition: int = 0) -> list[bytes | None]:
        return [each.value for each in self.stored(partition)]

    def test_lines(self) -> None:
        """Each line is a record; the last one may lack its end."""
        out = self.says("produce", "orders", "-p1", stdin=b"one tea\n\ntwo coffees\r\n\xff")
        self.assertEqual(out, "4 records in orders-1 at offsets 0 to 3\n")
        self.assertEqual(self.values(1), [b"one tea", b"", b"two coffees\r", b"\xff"])

    def test_nothing(self) -> None:
        """No input is no record."""
        self.assertEqual(self.says("produce", "orders"), "no records\n")

    def test_in_turn(self) -> None:
        """Without keys and partitions, all get their share."""
        self.says("produce", "orders", stdin=b"1\n2\n3\n")
        self.assertEqual((self.values(0), self.values(1)), ([b"1", b"3"], [b"2"]))

    def test_keys(self) -> None:
        """Keys decide, as for Kafka's clients."""
        self.says("produce", "orders", "--key-separator", ":", stdin=b"a:1\nb:2:3\na:4\n")
        for key, values in ((b"a", [b"1", b"4"]), (b"b", [b"2:3"])):
            found = [each.value for each in self.stored(partition_for(key, 2)) if each.key == key]
            self.assertEqual(found, values)

    def test_missing_key(self) -> None:
        """A line without a key is named; what was written before is, too."""
        stdin = b"a:1\n" * 3 + b"nonsense\n"
        self.assertEqual(
            self.fails("produce", "orders", "-K:", stdin=stdin),
            "rustlog: line 4 of standard input: there is no ':' between a key and a value\n",
        )

    def test_for_all(self) -> None:
        """A key and headers for all records."""
        self.says("produce", "orders", "-k", "table", "-H", "a=1", "-H", "b=", "-v", "x", "-v", "y")
        records = self.stored(partition_for(b"table", 2))
        self.assertEqual([each.value for each in records], [b"x", b"y"])
        self.assertEqual(records[1].headers, (("a", b"1"), ("b", b"")))

    def test_files(self) -> None:
        """Files are read by line, or are a record each."""
        name = self.mktemp()
        with open(name, "wb") as file:
            file.write(b"one\ntwo\n")
        self.says("produce", "orders", "-p0", name, "-", stdin=b"three")
        self.says("produce", "orders", "-p0", "--whole", name)
        self.assertEqual(self.values(), [b"one", b"two", b"three", b"one\ntwo\n"])
        self.assertIn("cannot read nonsense: No such file", self.fails("produce", "orders", "nonsense"))

    def test_json(self) -> None:
        """What consume writes as JSON is read again, and offsets come as JSON."""
        self.client.produce("orders", [Record(b"\xff", b"k", (("a", b"1"),), 5)], 1)
        lines = self.says("consume", "orders", "--format=json")
        out = self.says("produce", "orders", "-p0", "--format=json", "--json", stdin=lines.encode())
        self.assertEqual(json.loads(out), {"topic": "orders", "partition": 0, "offset": 0})
        self.assertEqual(self.stored(0), self.stored(1))
        self.assertIn("line 1 of standard input: it is not JSON",
                      self.fails("produce", "orders", "--format=json", stdin=b"nonsense"))  # fmt: skip

    def test_tombstones(self) -> None:
        """An empty value may be none."""
        self.says("produce", "orders", "-p0", "-K:", "--null", stdin=b"a:\n")
        self.assertEqual((self.stored()[0].key, self.stored()[0].value), (b"a", None))

    def test_large(self) -> None:
        """Much is written in portions; somebody who looks sees how far it is."""
        lines = b"".join(b"%d\n" % number for number in range(25_000))
        outcome = self.tool.run("produce", "orders", "-p0", "-q", stdin=lines, terminal=True)
        self.assertEqual((outcome.status, outcome.out), (0, ""))
        self.assertEqual(self.client.list_offsets("orders", 0, "latest").offset, 25_000)

    def test_too_large(self) -> None:
        """What does not fit is refused, not cut."""
        stdin = bytes(10_485_761)
        self.assertIn("has more than 10485760 bytes", self.fails("produce", "orders", stdin=stdin))
        self.assertIn("too large for one record", self.fails("produce", "orders", "--whole", stdin=stdin))

    def test_lost(self) -> None:
        """When nobody knows whether it was written, that is said; only who asks for it gets it twice."""
        self.broker.faults += ["", "unanswered"]
        failed = self.fails("produce", "orders", "-p0", "-v", "x", status=3)
        self.assertIn("may or may not have been done", failed)
        self.broker.faults += ["", "unanswered"]
        self.says("produce", "orders", "-p0", "-v", "y", "--at-least-once")
        self.assertEqual(self.values(), [b"x", b"y", b"y"])

    def test_contradictions(self) -> None:
        """What can not be meant is refused."""
        self.assertIn("either --key or", self.fails("produce", "orders", "-ka", "-K:", status=2))
        self.assertIn("either --value or", self.fails("produce", "orders", "-va", "file", status=2))


class ConsumeTests(ToolCase):
    """C{rustlog consume}."""

    def setUp(self) -> None:
        super().setUp()
        records = [Record(b"value %d" % number, timestamp=1000 * number) for number in range(5)]
        self.client.produce("orders", records, 0)

    def numbers(self, *options: str) -> str:
        """Which records come."""
        return self.says("consume", "orders", "-F", "%o ", *options).strip()

    def test_where_to_begin(self) -> None:
        """At an offset, at the beginning, at the end, near the end, at a time."""
        for options, found in (
            ((), "0 1 2 3 4"),
            (("-o3",), "3 4"),
            (("--offset", "earliest"), "0 1 2 3 4"),
            (("--offset", "latest"), ""),
            (("--offset", "-2"), "3 4"),
            (("--offset", "-20", "-p", "0"), "0 1 2 3 4"),
            (("--from-timestamp", "1970-01-01T00:00:02"), "2 3 4"),
            (("--from-timestamp", "2500", "-p0"), "3 4"),
            (("--from-timestamp", "5000"), ""),
            (("--count", "2"), "0 1"),
            (("-p", "1"), ""),
        ):
            self.assertEqual(self.numbers(*options), found, options)

    def test_raw(self) -> None:
        """Values are written as they are, with what one wants between them."""
        self.assertEqual(self.says("consume", "orders", "-n2", "-d", r"\0"), "value 0\0value 1\0")

    def test_group(self) -> None:
        """A group goes on where it was, also after a part of a batch."""
        self.assertEqual(self.numbers("-g", "kitchen", "-n", "2"), "0 1")
        self.assertEqual(self.client.committed("kitchen", "orders", 0), 2)
        self.assertEqual(self.numbers("-g", "kitchen"), "2 3 4")
        self.assertEqual(self.numbers("-g", "kitchen"), "")

    def test_group_whose_records_are_gone(self) -> None:
        """That is told, with a way out."""
        self.client.commit("kitchen", "orders", 0, 0)
        self.client.delete_records("orders", 0, 3)
        self.assertIn("--offset-reset earliest", self.fails("consume", "orders", "-gkitchen"))
        self.assertEqual(self.numbers("-gkitchen", "--offset-reset=earliest"), "3 4")

    def test_follow(self) -> None:
        """It waits for more, until it is interrupted; that is quiet."""

        def interrupt() -> None:
            raise KeyboardInterrupt

        self.broker.world.clock.callLater(1, self.broker.client().produce, "orders", [b"late"])
        self.broker.world.clock.callLater(3, interrupt)
        outcome = self.tool.run("consume", "orders", "-o5", "--follow")
        self.assertEqual((outcome.status, outcome.out, outcome.err), (130, "late\n", ""))

    def test_nobody_reads(self) -> None:
        """If whoever reads has gone, that is quiet, and the group has not seen the records."""

        class Broken:
            def write(self, data: bytes) -> None:
                raise BrokenPipeError

            def flush(self) -> None:
                raise BrokenPipeError

            def getvalue(self) -> bytes:
                return b""

        outcome = self.tool.run("consume", "orders", "-gkitchen", stdout=Broken())
        self.assertEqual((outcome.status, outcome.err), (141, ""))
        self.assertIsNone(self.client.committed("kitchen", "orders", 0))

    def test_wrong(self) -> None:
        """What can not be meant is refused."""
        self.assertIn(
            "either --offset or", self.fails("consume", "orders", "-o1", "--from-timestamp=5", status=2)
        )
        self.assertIn("there is no %z", self.fails("consume", "orders", "-F%z", status=2))
        self.assertIn("'soon' is not a number", self.fails("consume", "orders", "-o", "soon", status=2))


class GroupTests(ToolCase):
    """C{rustlog group}."""

    def setUp(self) -> None:
        super().setUp()
        for partition in (0, 1):
            records = [Record(b"", timestamp=1000 * number) for number in range(10)]
            self.client.produce("orders", records, partition)
        self.client.commit("kitchen", "orders", 0, 4)

    def committed(self) -> list[int | None]:
        return [self.client.committed("kitchen", "orders", each) for each in (0, 1)]

    def plan(self, *options: str) -> list[tuple[int, int | None, int, str]]:
        document: Any = json.loads(self.says("group", "reset-offsets", "kitchen", "--json", *options))
        return [
            (each["partition"], each["offset"], each["new_offset"], each["note"])
            for each in document["offsets"]
        ]

    def test_list(self) -> None:
        """All groups."""
        self.assertEqual(self.says("group", "list"), "GROUP\nkitchen\n")
        self.assertEqual(json.loads(self.says("group", "list", "--json")), [{"group_id": "kitchen"}])

    def test_describe(self) -> None:
        """How far it is."""
        lines = self.says("group", "describe", "kitchen").splitlines()
        self.assertEqual(lines[0].split(), ["TOPIC", "PARTITION", "OFFSET", "END", "LAG", "COMMITTED"])
        self.assertEqual(lines[1].split()[:5], ["orders", "0", "4", "10", "6"])
        document = json.loads(self.says("group", "describe", "kitchen", "--json"))
        self.assertEqual(document["offsets"][0]["lag"], 6)

    def test_plan(self) -> None:
        """Nothing is done without a word that says so."""
        outcome = self.tool.run("group", "reset-offsets", "kitchen", "--topic=orders", "--to-latest")
        self.assertEqual(
            outcome.out,
            "TOPIC   PARTITION  OFFSET  NEW OFFSET  NOTE\n"
            "orders          0       4          10\n"
            "orders          1       -          10\n",
        )
        self.assertEqual(outcome.err, "nothing was changed; say --execute to do it\n")
        self.assertEqual(self.committed(), [4, None])

    def test_execute(self) -> None:
        """With it, it is done."""
        self.says("group", "reset-offsets", "kitchen", "-t", "orders", "--to-latest", "--execute")
        self.assertEqual(self.committed(), [10, 10])

    def test_targets(self) -> None:
        """All ways to say where to."""
        for option, new in (
            (("--to-earliest",), 0), (("--to-latest",), 10), (("--to-offset=7",), 7),
            (("--shift-by", "-3"), 1), (("--shift-by=3",), 7), (("--to-datetime", "1970-01-01T00:00:05Z"), 5),
        ):  # fmt: skip
            self.assertEqual(self.plan("--all-topics", *option), [(0, 4, new, "")])

    def test_scopes(self) -> None:
        """All topics, one, or one partition."""
        self.assertEqual(self.plan("--topic=orders:1", "--to-offset=99"),
                         [(1, None, 10, "99 is behind the end of the log")])  # fmt: skip
        self.assertEqual(len(self.plan("--topic=orders", "--to-latest")), 2)
        wrong = self.fails("group", "reset-offsets", "kitchen", "-torders:7", "--to-latest")
        self.assertEqual(wrong, "rustlog: topic orders has no partition 7; it has 0 to 1\n")
        self.assertIn(
            "did you mean orders?", self.fails("group", "reset-offsets", "g", "-torder", "--to-latest")
        )
        self.assertIn(
            "group not found", self.fails("group", "reset-offsets", "g", "--all-topics", "--to-latest")
        )
        self.assertIn("say either", self.fails("group", "reset-offsets", "g", "--all-topics", "--to-latest",
                                               "--execute", "--dry-run", status=2))  # fmt: skip

    def test_new_group(self) -> None:
        """A group may be placed before it has ever read."""
        self.says("group", "reset-offsets", "bar", "--topic=orders:1", "--to-offset=3", "--execute")
        self.assertEqual(self.client.committed("bar", "orders", 1), 3)

    def test_delete(self) -> None:
        """A group is forgotten, in part or as a whole."""
        self.client.commit("kitchen", "orders", 1, 1)
        out = self.says("group", "delete", "kitchen", "--topic=orders:1", "--yes")
        self.assertEqual(out, "deleted the offsets of group kitchen in orders:1\n")
        self.assertEqual(self.committed(), [4, None])
        self.assertIn("delete group kitchen? Say --yes", self.fails("group", "delete", "kitchen", status=2))
        self.assertEqual(self.says("group", "delete", "kitchen", "-y"), "deleted group kitchen\n")
        self.assertIn("group not found", self.fails("group", "delete", "kitchen", "-y"))


class ErrorTests(ToolCase):
    """Errors are one line, and name the next step."""

    def test_no_broker(self) -> None:
        """How to start one."""
        self.broker.refusals = 1
        error = self.fails("topic", "list", status=3)
        self.assertEqual(error.count("\n"), 1)
        self.assertIn("start a broker with 'twistd -n rustlog', or name another one with --bootstrap", error)

    def test_unknown_topic(self) -> None:
        """What might be meant, and how to make it."""
        error = self.fails("consume", "ordres")
        self.assertIn("topic not found: ordres; did you mean orders?", error)
        self.assertIn("'rustlog topic create ordres' makes it", error)
        self.assertIn("'rustlog topic describe orders' shows", self.fails("produce", "orders", "-p9", "-vx"))
        self.assertIn("did you mean orders?", self.fails("topic", "delete", "order", "-y"))

    def test_unknown_group(self) -> None:
        """The same for groups."""
        self.client.commit("kitchen", "orders", 0, 0)
        self.assertIn("did you mean kitchen?", self.fails("group", "describe", "kichen"))

    def test_advice_is_not_an_error(self) -> None:
        """If the broker goes away meanwhile, there is less advice, and the same error."""
        self.broker.faults += ["", *["unsent"] * 100]
        self.assertIn("topic not found: nope; 'rustlog topic list'", self.fails("topic", "describe", "nope"))

    def test_other_errors(self) -> None:
        """The broker's own words are shown."""
        self.assertIn("invalid setting nonsense", self.fails("topic", "create", "a", "-s", "nonsense=1"))

    def test_wrong_usage(self) -> None:
        """The help is near."""
        for arguments in (
            (),
            ("topic",),
            ("nonsense",),
            ("topic", "create"),
            ("topic", "create", "a", "-p0"),
        ):
            self.assertIn("usage: rustlog", self.fails(*arguments, status=2))


class BrokerTests(ToolCase):
    """Where the broker is."""

    def test_bootstrap(self) -> None:
        """An option, a variable, a default."""
        self.says("topic", "list")
        self.tool.variables["RUSTLOG_BOOTSTRAP"] = "there:1"
        self.says("topic", "list")
        self.says("topic", "list", "-b", "elsewhere:2")
        self.assertEqual(self.tool.addresses, ["127.0.0.1:9091", "there:1", "elsewhere:2"])

    def test_ping(self) -> None:
        """It answers."""
        self.assertIn(" at 127.0.0.1:9091 answered in 0.0 ms\n", self.says("ping"))
        self.assertEqual(json.loads(self.says("ping", "--json"))["address"], "127.0.0.1:9091")

    def test_version(self) -> None:
        """No broker is needed for that."""
        self.assertRegex(self.says("version"), r"^rustlog \d+\.\d+\.\d+\n$")
        self.assertEqual(self.tool.addresses, [])

    def test_connections_end(self) -> None:
        """When a command is done, so is its connection, even if it failed."""
        self.says("topic", "list")
        self.fails("topic", "describe", "nope")
        self.assertTrue(all(each.closed for each in self.broker.connections))


class CompletionTests(ToolCase):
    """C{rustlog completion}."""

    def test_scripts(self) -> None:
        """Each shell gets a script that knows all commands."""
        for shell in SHELLS:
            script = self.says("completion", shell)
            for word in ("topic", "reset-offsets", "shift-by", "completion"):
                self.assertIn(word, script)
            self.assertIn("rustlog topic list", script)
