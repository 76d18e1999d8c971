"""Tests for L{rustlog.wire.pipeline}."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rustlog.results import Result
from rustlog.wire.pipeline import Entry, Pipeline, Work


class Job(Work):
    """Ends when told; what is written in lower case overlaps."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.overlaps = payload.islower()
        self.is_cancellable = payload.startswith(b"C")
        self.is_immediate = payload.startswith((b"i", b"I"))
        self.result: Deferred[bytes] = Deferred()

    def start(self) -> Result[bytes]:
        return self.payload if self.is_immediate else self.result


class PipelineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.jobs: dict[bytes, Job] = {}
        self.started: list[bytes] = []
        self.answers: list[bytes] = []
        self.dropped: list[Entry] = []
        self.failures: list[Failure] = []
        self.pipeline = Pipeline(
            understand=self.understand,
            start=self.start,
            answer=lambda entry, work, answer: self.answers.append(answer),
            drop=self.dropped.append,
            fail=self.failures.append,
        )

    def understand(self, payload: bytes) -> Job:
        self.jobs[payload] = Job(payload)
        return self.jobs[payload]

    def start(self, entry: Entry, work: Any) -> Result[bytes]:
        self.started.append(work.payload)
        return work.start()

    def submit(self, *payloads: bytes) -> None:
        for each in payloads:
            self.pipeline.submit(Entry(each, len(each)))

    def end(self, *payloads: bytes) -> None:
        for each in payloads:
            self.jobs[each].result.callback(each)

    def test_answers_at_once(self) -> None:
        """Requests that are done at once are answered at once."""
        self.submit(b"i1", b"I2", b"I3")
        self.assertEqual(self.answers, [b"i1", b"I2", b"I3"])
        self.assertEqual(len(self.pipeline), 0)

    def test_overlapping(self) -> None:
        """Requests that may overlap are worked on together, and answered in order."""
        self.submit(b"a", b"b", b"c")
        self.assertEqual(self.started, [b"a", b"b", b"c"])
        self.end(b"c", b"b")
        self.assertEqual(self.answers, [])
        self.end(b"a")
        self.assertEqual(self.answers, [b"a", b"b", b"c"])

    def test_others_wait_for_what_is_before_them(self) -> None:
        """A request that may not overlap begins when all before it are answered."""
        self.submit(b"a", b"b", b"X", b"c")
        self.assertEqual(self.started, [b"a", b"b"])
        self.end(b"b", b"a")
        self.assertEqual(self.started, [b"a", b"b", b"X"])
        self.end(b"X")
        self.assertEqual(self.started, [b"a", b"b", b"X", b"c"])
        self.end(b"c")
        self.assertEqual(self.answers, [b"a", b"b", b"X", b"c"])

    def test_not_understood_before_its_time(self) -> None:
        """What waits behind a request that may not overlap stays just bytes."""
        self.submit(b"X", b"a", b"b")
        self.assertEqual(list(self.jobs), [b"X"])
        self.end(b"X")
        self.assertEqual(list(self.jobs), [b"X", b"a", b"b"])

    def test_payload_is_let_go(self) -> None:
        """The bytes of a request are not kept once they are understood."""
        entry = Entry(b"a", 1)
        self.pipeline.submit(entry)
        self.assertIsNone(entry.payload)

    def test_held(self) -> None:
        """While it is held nothing begins, but what has begun is answered."""
        self.submit(b"a")
        self.pipeline.hold()
        self.submit(b"b", b"i")
        self.end(b"a")
        self.assertEqual((self.started, self.answers), ([b"a"], [b"a"]))
        self.pipeline.release()
        self.assertEqual(self.started, [b"a", b"b", b"i"])

    def test_long_queue(self) -> None:
        """A long queue of requests that are done at once does not exhaust the stack."""
        self.pipeline.hold()
        self.submit(*[b"I%d" % number for number in range(5000)])
        self.pipeline.release()
        self.assertEqual(len(self.answers), 5000)

    def test_fired_deferreds(self) -> None:
        """A Deferred that has a result already is as good as a value."""
        self.pipeline._start = lambda entry, work: succeed(work.payload)
        self.submit(b"a", b"B", b"c")
        self.assertEqual(self.answers, [b"a", b"B", b"c"])

    def test_close_drops_what_waits(self) -> None:
        """When the client is gone, what has not begun never will."""
        self.submit(b"X", b"a")
        self.pipeline.close()
        self.assertEqual([entry.payload for entry in self.dropped], [b"a"])
        self.assertEqual(len(self.pipeline), 1)

    def test_close_lets_work_end(self) -> None:
        """When the client is gone, what has begun is dropped when it ends, and not before."""
        self.submit(b"a", b"b")
        self.end(b"b")
        self.pipeline.close()
        self.assertEqual([entry.work for entry in self.dropped], [self.jobs[b"b"]])
        self.end(b"a")
        self.assertEqual([entry.work for entry in self.dropped], [self.jobs[b"b"], self.jobs[b"a"]])
        self.assertEqual((self.answers, len(self.pipeline)), ([], 0))

    def test_close_cancels_what_can_be_cancelled(self) -> None:
        """A read for which nobody waits any more is given up; a write is not."""
        self.submit(b"C")
        self.pipeline.close()
        self.assertEqual([entry.work for entry in self.dropped], [self.jobs[b"C"]])
        self.assertEqual(self.failures, [])

    def test_failure(self) -> None:
        """Work that fails, which it must not, is told of."""
        self.submit(b"a")
        self.jobs[b"a"].result.errback(ZeroDivisionError())
        self.assertEqual([each.type for each in self.failures], [ZeroDivisionError])

    def test_cancelled_by_somebody_else(self) -> None:
        """Work that is cancelled while its client waits is a failure like any other."""
        self.submit(b"a")
        self.jobs[b"a"].result.cancel()
        self.assertEqual([each.type for each in self.failures], [CancelledError])

    def test_order_whatever_happens(self) -> None:
        """For any mix of requests, ending in any order, answers come in the order of the requests."""

        @settings(deadline=None, max_examples=60)
        @given(st.lists(st.sampled_from("abiXI"), max_size=12), st.randoms(use_true_random=False))
        def check(kinds: list[str], random: Any) -> None:
            self.setUp()
            payloads = [f"{kind}{number}".encode() for number, kind in enumerate(kinds)]
            running: set[bytes] = set()
            for payload in payloads:
                self.submit(payload)
            while len(self.pipeline):
                running = {each for each in self.started if not self.jobs[each].is_immediate}
                running = {each for each in running if not self.jobs[each].result.called}
                if any(not self.jobs[each].overlaps for each in running):
                    self.assertEqual(len(running), 1)
                self.end(random.choice(sorted(running)))
            self.assertEqual(self.answers, payloads)

        check()
