"""Tests for L{rustlog.wire.kafka.handlers.topics}."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rustlog.judging import PARTITIONS_MAX
from rustlog.model import TopicInfo
from rustlog.settings import TopicConfig, vocabulary
from rustlog.wire.kafka.errors import ErrorCode
from rustlog.wire.kafka.handlers.topics import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from tests.unit.wire.kafka.harness import CONTEXT, HandlerCase

NONE = ErrorCode.none


class TopicCase(HandlerCase):
    """Looks at what became of topics."""

    def topic(self, name: str) -> TopicInfo | None:
        info: TopicInfo | None = self.world.memory.catalog.get(name)
        return info


class CreateTopicsTests(TopicCase):
    def new(self, name: str, partitions: int = -1, factor: int = -1, **more: Any) -> dict[str, Any]:
        """A topic as it is asked for."""
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": factor}
        return {"assignments": (), "configs": (), **wanted, **more}

    def create(self, *topics: Any, version: int | None = None, validate_only: bool = False) -> Any:
        """What is answered to these."""
        response = self.ask(CREATE_TOPICS, version, topics=topics, timeout=1000, validate_only=validate_only)
        self.assertEqual([each.name for each in response.topics], [each["name"] for each in topics])
        return response.topics

    def refusal(self, **topic: Any) -> tuple[ErrorCode, str]:
        """Why a topic was not made."""
        (answer,) = self.create(self.new("new", **topic))
        self.assertIsNone(self.topic("new"))
        self.assertEqual(answer.configs, ())
        return answer.error_code, answer.error_message

    def test_every_version(self) -> None:
        """A topic is made as it was asked for, and newer versions tell all about it."""
        for version in self.versions(CREATE_TOPICS):
            name = f"new.{version}"
            configs = [{"name": "retention.ms", "value": "0005"}]
            (answer,) = self.create(self.new(name, 3, 1, configs=configs), version=version)
            self.assertEqual((answer.error_code, answer.error_message), (NONE, None))
            info = self.topic(name)
            assert info is not None
            self.assertEqual((info.partitions, dict(info.config)), (3, {"retention.ms": "5"}))
            if version >= 5:
                self.assertEqual((answer.num_partitions, answer.replication_factor), (3, 1))
                found = {each.name: (each.value, each.config_source) for each in answer.configs}
                self.assertEqual(set(found), {each.name for each in vocabulary(TopicConfig)})
                self.assertEqual((found["retention.ms"], found["segment.jitter.ms"]), (("5", 1), ("0", 5)))
            if version >= 7:
                self.assertEqual(answer.topic_id, info.id)

    def test_default_partitions(self) -> None:
        """Who does not say how many gets as many as the broker likes."""
        (answer,) = self.create(self.new("new"))
        self.assertEqual(answer.num_partitions, 1)

    def test_validate_only(self) -> None:
        """Who only asks is told the same, and nothing is made."""
        answers = self.create(self.new("new", 2), self.new("orders", 2), validate_only=True)
        self.assertEqual([each.error_code for each in answers], [NONE, ErrorCode.topic_already_exists])
        self.assertEqual(answers[0].num_partitions, 2)
        self.assertIsNone(answers[0].topic_id)
        self.assertGreater(len(answers[0].configs), 5)
        self.assertIsNone(self.topic("new"))

    def test_bad_names(self) -> None:
        """Kafka's rule for names holds; the others in the request are made."""
        answers = self.create(self.new("a/b"), self.new(""), self.new("good"))
        bad = ErrorCode.invalid_topic_exception
        self.assertEqual([each.error_code for each in answers], [bad, bad, NONE])
        self.assertIn("only ASCII letters", answers[0].error_message)

    def test_named_twice(self) -> None:
        """A topic that is named twice is not made at all."""
        answers = self.create(self.new("new", 1), self.new("new", 2), self.new("other"))
        twice = ErrorCode.invalid_request
        self.assertEqual([each.error_code for each in answers], [twice, twice, NONE])
        self.assertIsNone(self.topic("new"))

    def test_bad_partition_counts(self) -> None:
        """A topic has at least one partition, and not too many."""
        for count in (0, -2, PARTITIONS_MAX + 1):
            code, message = self.refusal(partitions=count)
            self.assertIs(code, ErrorCode.invalid_partitions)
            self.assertIn(f"{count} is not within 1..{PARTITIONS_MAX}", message)

    def test_bad_replication_factors(self) -> None:
        """There is one broker."""
        code, message = self.refusal(factor=3)
        self.assertIs(code, ErrorCode.invalid_replication_factor)
        self.assertIn("a replication factor of 3 cannot be reached: there is 1 broker", message)
        for factor in (0, -2):
            self.assertIs(self.refusal(factor=factor)[0], ErrorCode.invalid_replication_factor)

    def test_bad_settings(self) -> None:
        """Unknown settings, bad values and no values are refused with a sentence."""
        for name, value, words in (
            ("colour", "red", "no such topic setting; there are: cleanup.policy"),
            ("retention.ms", "soon", "'soon' is not a whole number"),
            ("min.insync.replicas", "2", "2 is not supported, only 1"),
            ("retention.ms", None, "it has no value"),
        ):
            code, message = self.refusal(configs=[{"name": name, "value": value}])
            self.assertIs(code, ErrorCode.invalid_config)
            self.assertIn(words, message)

    def test_assignments(self) -> None:
        """Whoever says where replicas shall be says so for each partition, and means this broker."""
        assignments = [{"partition_index": each, "broker_ids": [0]} for each in (1, 0, 2)]
        (answer,) = self.create(self.new("new", assignments=assignments))
        self.assertEqual((answer.error_code, answer.num_partitions), (NONE, 3))

    def test_bad_assignments(self) -> None:
        """Anything else is refused."""
        for indexes, brokers in (
            ((1,), [0]),
            ((0, 0), [0]),
            ((0, 2), [0]),
            ((0,), []),
            ((0,), [1]),
            ((0,), [0, 0]),
            ((0,), [0, 1]),
        ):
            assignments = [{"partition_index": each, "broker_ids": brokers} for each in indexes]
            code, message = self.refusal(assignments=assignments)
            self.assertIs(code, ErrorCode.invalid_replica_assignment)
            self.assertTrue(message)
        assignments = [{"partition_index": 0, "broker_ids": [0]}]
        for more in ({"partitions": 1}, {"factor": 1}):
            self.assertIs(self.refusal(assignments=assignments, **more)[0], ErrorCode.invalid_request)


class DeleteTopicsTests(TopicCase):
    def delete(self, version: int, *names: str) -> Any:
        """What is answered to these names."""
        if version < 6:
            response = self.ask(DELETE_TOPICS, version, topic_names=names, timeout=1000)
        else:
            topics = [{"name": each, "topic_id": None} for each in names]
            response = self.ask(DELETE_TOPICS, version, topics=topics, timeout=1000)
        return response.responses

    def test_every_version(self) -> None:
        """A topic that exists is deleted; of one that does not, the client is told."""
        for version in self.versions(DELETE_TOPICS):
            self.world.create("old")
            gone, unknown = self.delete(version, "old", "unknown")
            self.assertEqual((gone.name, gone.error_code), ("old", NONE))
            self.assertEqual(
                (unknown.name, unknown.error_code), ("unknown", ErrorCode.unknown_topic_or_partition)
            )
            if version >= 5:
                self.assertIn("topic not found: unknown", unknown.error_message)
            self.assertIsNone(self.topic("old"))

    def test_by_id(self) -> None:
        """The newest version can name a topic by its id."""
        info = self.topic("orders")
        assert info is not None
        topics = [{"name": None, "topic_id": info.id}, {"name": None, "topic_id": UUID(int=7)}]
        gone, unknown = self.ask(DELETE_TOPICS, topics=topics, timeout=0).responses
        self.assertEqual((gone.error_code, gone.name, gone.topic_id), (NONE, "orders", info.id))
        self.assertEqual((unknown.error_code, unknown.name), (ErrorCode.unknown_topic_id, None))
        self.assertIsNone(self.topic("orders"))

    def test_unclear(self) -> None:
        """By both or by neither, nothing is deleted."""
        info = self.topic("orders")
        assert info is not None
        topics = [{"name": "orders", "topic_id": info.id}, {"name": None, "topic_id": None}]
        answers = self.ask(DELETE_TOPICS, topics=topics, timeout=0).responses
        self.assertEqual([each.error_code for each in answers], [ErrorCode.invalid_request] * 2)
        self.assertIsNotNone(self.topic("orders"))

    def test_twice(self) -> None:
        """A topic that is named twice, in whatever way, stays."""
        info = self.topic("orders")
        assert info is not None
        by_name, by_id = {"name": "orders", "topic_id": None}, {"name": None, "topic_id": info.id}
        for topics in ([by_name, by_name], [by_id, by_id], [by_name, by_id]):
            answers = self.ask(DELETE_TOPICS, topics=topics, timeout=0).responses
            self.assertEqual([each.error_code for each in answers], [ErrorCode.invalid_request] * 2)
        self.assertIsNotNone(self.topic("orders"))

    def test_internal(self) -> None:
        """The broker's own topics stay."""
        self.world.memory.catalog.create("__own", 1, {}, internal=True)
        (answer,) = self.delete(6, "__own")
        self.assertIs(answer.error_code, ErrorCode.invalid_topic_exception)
        self.assertIsNotNone(self.topic("__own"))


class CreatePartitionsTests(TopicCase):
    def grow(
        self, *wanted: tuple[str, int, Any], version: int | None = None, validate_only: bool = False
    ) -> Any:
        """What is answered to names, counts and assignments."""
        topics = [
            {
                "name": name,
                "count": count,
                "assignments": brokers and [{"broker_ids": each} for each in brokers],
            }
            for name, count, brokers in wanted
        ]
        response = self.ask(
            CREATE_PARTITIONS, version, topics=topics, timeout=1000, validate_only=validate_only
        )
        self.assertEqual([each.name for each in response.results], [name for name, _, _ in wanted])
        return response.results

    def partitions(self) -> int:
        return self.world.broker.topic(CONTEXT, "orders").partitions

    def test_every_version(self) -> None:
        """A topic grows, with or without a word about replicas."""
        for version in self.versions(CREATE_PARTITIONS):
            count = self.partitions()
            (answer,) = self.grow(("orders", count + 1, None), version=version)
            self.assertEqual((answer.error_code, answer.error_message), (NONE, None))
            self.grow(("orders", count + 3, [[0], [0]]), version=version)
            self.assertEqual(self.partitions(), count + 3)

    def test_validate_only(self) -> None:
        """Who only asks changes nothing."""
        for count, code in ((3, NONE), (2, ErrorCode.invalid_partitions)):
            (answer,) = self.grow(("orders", count, None), validate_only=True)
            self.assertIs(answer.error_code, code)
        self.assertEqual(self.partitions(), 2)

    def test_refused(self) -> None:
        """It does not shrink, does not stay as it is, and each error has its sentence."""
        for name, count, code, words in (
            ("orders", 2, ErrorCode.invalid_partitions, "orders has 2 already, 2 asked for"),
            ("orders", 1, ErrorCode.invalid_partitions, "orders has 2 already, 1 asked for"),
            ("orders", 0, ErrorCode.invalid_partitions, "0 is not within"),
            ("no", 5, ErrorCode.unknown_topic_or_partition, "topic not found: no"),
        ):
            (answer,) = self.grow((name, count, None))
            self.assertIs(answer.error_code, code)
            self.assertIn(words, answer.error_message)

    def test_bad_assignments(self) -> None:
        """There is an assignment for each new partition, to this broker."""
        for brokers in ([[0]], [[0], [1]], [[0], [0, 0]], [[0], []]):
            (answer,) = self.grow(("orders", 4, brokers))
            self.assertIs(answer.error_code, ErrorCode.invalid_replica_assignment)
        self.assertEqual(self.partitions(), 2)

    def test_twice(self) -> None:
        """A topic that is named twice stays as it is."""
        answers = self.grow(("orders", 3, None), ("orders", 4, None))
        self.assertEqual([each.error_code for each in answers], [ErrorCode.invalid_request] * 2)
        self.assertEqual(self.partitions(), 2)
