"""Tests for L{rustlog.wire.http.routes} and L{rustlog.wire.http.api}: which path gives what."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import PartitionFenced
from rustlog.model import Committed, TopicPartition
from rustlog.monitoring import STEP
from rustlog.observability.health import Stage
from rustlog.settings import TopicConfig, vocabulary
from rustlog.wire.http.answers import Answer
from rustlog.wire.http.api import PROBLEMS_MAX, Api
from rustlog.wire.http.routes import Routes
from tests.unit.observability.test_metrics import samples
from tests.unit.wire.harness import CONTEXT, World, produce


class RoutesCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.monitoring = self.world.listener.monitoring
        self.monitoring.health.stage = Stage.READY
        self.routes = Routes(Api(self.world.broker, self.monitoring))

    def ask(self, path: str, method: str = "GET") -> Answer:
        answer = self.routes.answer(CONTEXT, method, self.routes.find(path.encode()))
        for _ in range(1000):
            if answer.called:
                break
            self.world.clock.advance(0)
        return self.successResultOf(answer)

    def get(self, path: str) -> Any:
        """The JSON that is there."""
        answer = self.ask(path)
        self.assertEqual((answer.status, answer.content_type), (200, "application/json"))
        return json.loads(answer.body)

    def commit(self, group: str, topic: str, offset: int, **more: Any) -> None:
        committed = {TopicPartition(topic, 0): Committed(offset, **more)}
        self.successResultOf(self.world.broker.commit_offsets(CONTEXT, group, committed))


class ProbeTests(RoutesCase):
    def test_alive(self) -> None:
        """Whatever its state, a broker that answers is alive."""
        self.monitoring.health.stage = Stage.STOPPING
        self.assertEqual(self.ask("/healthz"), Answer(b"ok\n"))

    def test_ready(self) -> None:
        """It is ready, or says why not."""
        self.assertEqual(self.ask("/readyz"), Answer(b"ready\n"))
        self.monitoring.health.stage = Stage.STOPPING
        answer = self.ask("/readyz")
        self.assertEqual((answer.status, answer.body), (503, b"the broker is stopping\n"))

    def test_fenced(self) -> None:
        """Fenced partitions are named, if there are not very many."""
        fenced = [PartitionFenced(TopicPartition("orders", n), "x") for n in range(PROBLEMS_MAX + 5)]
        self.patch(self.world.broker.administration, "fenced", lambda _: fenced)
        answer = self.ask("/readyz")
        lines = answer.body.decode().splitlines()
        self.assertEqual((answer.status, lines[0]), (503, "partition orders-0 is fenced: x"))
        self.assertEqual((len(lines), lines[-1]), (PROBLEMS_MAX + 1, "and 5 more"))

    def test_metrics(self) -> None:
        """Metrics are in the format of Prometheus, as of now."""
        self.world.create("orders")
        answer = self.ask("/metrics")
        self.assertEqual(answer.content_type, "text/plain; version=0.0.4; charset=utf-8")
        self.assertEqual(samples(answer.body)["rustlog_topics", frozenset()], 1)

    def test_index(self) -> None:
        """There is a page for people."""
        self.world.create("orders")
        answer = self.ask("/")
        self.assertEqual((answer.status, answer.content_type), (200, "text/html; charset=utf-8"))
        self.assertIn(b"orders", answer.body)
        self.assertIn(b"Ready.", answer.body)


class TopicTests(RoutesCase):
    def test_all(self) -> None:
        """All topics, with their sizes."""
        self.world.create("orders", 2)
        self.world.create("empty")
        self.world.client().ask(produce(b"a", b"b"))
        size = self.world.broker.traffic["rustlog"].appended_bytes
        self.assertEqual(
            self.get("/api/topics"),
            {
                "topics": [
                    {"name": "empty", "partitions": 1, "internal": False, "records": 0, "bytes": 0},
                    {"name": "orders", "partitions": 2, "internal": False, "records": 2, "bytes": size},
                ]
            },
        )

    def test_one(self) -> None:
        """One topic, with its settings and partitions."""
        self.world.create("orders", 2, **{"retention.ms": "5"})
        self.world.client().ask(produce(b"a", b"b", partition=1))
        size = self.world.broker.traffic["rustlog"].appended_bytes
        topic = self.get("/api/topics/orders")
        self.assertEqual((topic["name"], topic["internal"]), ("orders", False))
        self.assertEqual(topic["config"], {"retention.ms": "5"})
        self.assertEqual(topic["settings"]["retention.ms"], {"value": "5", "source": "topic"})
        self.assertEqual(topic["settings"]["retention.bytes"], {"value": "-1", "source": "default"})
        self.assertEqual(set(topic["settings"]), {each.name for each in vocabulary(TopicConfig)})
        info = self.world.broker.topic(CONTEXT, "orders")
        self.assertEqual(topic["id"], str(info.id))
        empty, full = topic["partitions"]
        common = {"log_start_offset": 0, "leader_epoch": 0}
        self.assertEqual(
            empty, {"partition": 0, "high_watermark": 0, "bytes": 0, "segments": empty["segments"], **common}
        )
        self.assertEqual(full, {"partition": 1, "high_watermark": 2, "bytes": size, "segments": 1, **common})

    def test_none(self) -> None:
        """One that does not exist is not found."""
        for name in ("nothing", "", "a/b", "%00"):
            answer = self.ask(f"/api/topics/{name}")
            self.assertEqual(answer.status, 404, name)
            self.assertEqual(json.loads(answer.body)["error"], "TopicNotFound")

    def test_in_steps(self) -> None:
        """A topic of very many partitions is described in steps, with turns for others in between."""
        self.world.create("wide", STEP * 10)
        pauses: list[Deferred[None]] = []
        self.patch(self.monitoring, "pause", lambda: pauses.append(Deferred()) or pauses[-1])
        answer = self.routes.answer(CONTEXT, "GET", self.routes.find(b"/api/topics/wide"))
        while not answer.called:
            pauses[-1].callback(None)
        self.assertEqual(len(pauses), 10)
        self.assertEqual(len(json.loads(self.successResultOf(answer).body)["partitions"]), STEP * 10)


class GroupTests(RoutesCase):
    def setUp(self) -> None:
        super().setUp()
        self.world.create("orders")
        self.world.client().ask(produce(b"a", b"b", b"c"))

    def test_all(self) -> None:
        """All groups, with how far they are behind."""
        self.commit("kitchen", "orders", 1)
        self.assertEqual(
            self.get("/api/groups"), {"groups": [{"group": "kitchen", "partitions": 1, "lag": 2}]}
        )

    def test_one(self) -> None:
        """One group, with all that it has committed, also where the topic is gone."""
        self.world.create("gone")
        self.commit("kitchen", "orders", 1, metadata="ü", commit_time=1234)
        self.commit("kitchen", "gone", 0, commit_time=1234)
        self.world.memory.catalog.delete("gone")
        common = {"partition": 0, "leader_epoch": -1, "commit_time": 1234}
        gone = {"log_start_offset": None, "high_watermark": None, "lag": None}
        here = {"log_start_offset": 0, "high_watermark": 3, "lag": 2}
        self.assertEqual(
            self.get("/api/groups/kitchen"),
            {
                "group": "kitchen",
                "lag": 2,
                "offsets": [
                    {"topic": "gone", "offset": 0, "metadata": "", **common, **gone},
                    {"topic": "orders", "offset": 1, "metadata": "ü", **common, **here},
                ],
            },
        )

    def test_names(self) -> None:
        """Groups can be called nearly anything, and are found by their encoded names."""
        for name in ("a/b", "a b", "ü?#&%2F", "..", "/", "<x>", "a\nb"):
            self.commit(name, "orders", 1)
            self.assertEqual(self.get(f"/api/groups/{quote(name, safe='')}")["group"], name)
        self.assertEqual(self.get("/api/groups/a/b")["group"], "a/b")

    def test_none(self) -> None:
        """One that does not exist is not found."""
        answer = self.ask("/api/groups/nobody")
        self.assertEqual(answer.status, 404)
        self.assertEqual(json.loads(answer.body)["error"], "GroupNotFound")

    def test_name_that_can_not_be(self) -> None:
        """A name that no group can have is refused."""
        answer = self.ask("/api/groups/" + "x" * 40_000)
        self.assertEqual((answer.status, json.loads(answer.body)["error"]), (400, "InvalidGroup"))


class OtherPathsTests(RoutesCase):
    def test_unknown(self) -> None:
        """Paths that lead nowhere are not found, whatever the method."""
        for path in ("/nowhere", "/api", "/api/", "/api/nothing", "/metrics/", "//metrics", "*"):
            for method in ("GET", "POST"):
                answer = self.ask(path, method)
                self.assertEqual((answer.status, answer.content_type), (404, "application/json"), path)
            self.assertEqual(self.routes.find(path.encode()).name, "unknown")

    def test_not_utf8(self) -> None:
        """A path that is no text is refused."""
        answer = self.ask("/api/groups/%ff")
        self.assertEqual(answer.status, 400)

    def test_absolute(self) -> None:
        """A proxy may ask for the whole address."""
        self.assertEqual(self.ask("http://127.0.0.1:9080/healthz").status, 200)
        self.assertEqual(self.routes.find(b"http://127.0.0.1:9080").name, "index")

    def test_methods(self) -> None:
        """Only reading is allowed."""
        answer = self.ask("/api/topics", "DELETE")
        self.assertEqual((answer.status, answer.headers), (405, (("Allow", "GET, HEAD"),)))
