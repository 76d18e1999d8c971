"""Tests for L{rustlog.spark.jobs.running}: what becomes of results, errors and interrupts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.spark.errors import CorruptLog, PipelineError
from rustlog.spark.jobs import running
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.running import Cluster, Here


class FakeAccumulator:
    """One that workers add to."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, amount: int) -> None:
        self.value += amount


class FakeJob:
    """Tasks that run in this process, and fail as Spark's do."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        self._tasks = tasks
        self._work: Callable[[Any], Any] = id

    def map(self, work: Callable[[Any], Any]) -> FakeJob:
        self._work = work
        return self

    def collect(self) -> list[Any]:
        try:
            return [self._work(each) for each in self._tasks]
        except Exception as error:
            raise RuntimeError(
                "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
                ": org.apache.spark.SparkException: Job aborted: Traceback (most recent call last):\n"
                f'  File "worker.py", line 1, in main\n{type(error).__name__}: {error}\n\n'
                "\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:561)\n"
                "Driver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler)\n"
            ) from None


class FakeSpark:
    """A session, and its context."""

    defaultParallelism = 3

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.sparkContext = self

    def accumulator(self, value: int) -> FakeAccumulator:
        return FakeAccumulator(value)

    def parallelize(self, tasks: Sequence[Any], count: int) -> FakeJob:
        assert count == len(tasks)
        return FakeJob(tasks)

    def setJobGroup(self, name: str, description: str, interruptOnCancel: bool) -> None:
        pass

    def cancelJobGroup(self, name: str) -> None:
        self.cancelled.append(name)


def double(number: int) -> int:
    """Work that is sometimes too much."""
    if number == 13:
        raise CorruptLog("orders", 0, 13, "it is unlucky")
    if number == 14:
        raise ZeroDivisionError("division by zero")
    return 2 * number


class ClusterTests(SynchronousTestCase):
    """Tasks on Spark."""

    def setUp(self) -> None:
        self.spark = FakeSpark()
        self.patch(running, "_LOOK_SECONDS", 0.001)
        self.cluster = Cluster(lambda: self.spark)  # type: ignore[arg-type, return-value]
        self.done: list[int] = []

    def run_tasks(self, *tasks: int) -> list[int]:
        return self.cluster.run("double", tasks, double, lambda task: task, self.done.append)

    def test_results(self) -> None:
        """Results come in the order of the tasks, and what is done is told."""
        self.assertFalse(self.cluster.is_started)
        self.assertEqual(self.run_tasks(1, 2, 3), [2, 4, 6])
        self.assertEqual(sum(self.done), 6)
        self.assertTrue(self.cluster.is_started)
        self.assertEqual(self.cluster.parallelism, 3)

    def test_nothing(self) -> None:
        """For nothing, Spark is not started."""
        self.assertEqual(self.run_tasks(), [])
        self.assertFalse(self.cluster.is_started)

    def test_error_of_ours(self) -> None:
        """What a worker has to say to people arrives as it was, through all stack traces."""
        error = self.assertRaises(CorruptLog, self.run_tasks, 1, 13)
        self.assertEqual(str(error), "orders-0 is damaged at offset 13: it is unlucky")

    def test_error_of_others(self) -> None:
        """Of anything else, the line that says what it was."""
        error = self.assertRaises(JobFailed, self.run_tasks, 14)
        self.assertEqual(str(error), "Spark has failed: ZeroDivisionError: division by zero")

    def test_interrupt(self) -> None:
        """Who interrupts it cancels the tasks, and hears nothing of them."""

        def interrupt() -> int:
            raise KeyboardInterrupt

        self.patch(running, "_CANCEL_SECONDS_MAX", 0)
        held = _Held()
        self.assertRaises(
            KeyboardInterrupt, self.cluster.wait, "archive 3", held.wait, measure=interrupt
        )
        held.release()
        self.assertEqual(self.spark.cancelled, ["archive 3"])

    def test_start_fails(self) -> None:
        """What prevents Spark from starting is told as it is."""

        def start() -> Any:
            raise PipelineError("there is no Java")

        cluster = Cluster(start)
        error = self.assertRaises(PipelineError, cluster.run, "x", [1], double, int, id)
        self.assertEqual(str(error), "there is no Java")

    def test_watch(self) -> None:
        """Tasks that take long are watched from outside; a watcher that fails does not matter."""
        watch = _Watch()
        held = _Held()
        watch.held = held
        self.cluster.wait("replay", held.wait, advance=self.done.append, watch=watch)
        self.assertTrue(watch.is_closed)
        self.assertIn(5, self.done)


class _Held:
    """An action that takes until it is released."""

    def __init__(self) -> None:
        from threading import Event

        self._event = Event()

    def wait(self) -> None:
        self._event.wait(20)

    def release(self) -> None:
        self._event.set()


class _Watch:
    """Sees five, and then something goes wrong."""

    is_closed = False
    looks = 0
    held: _Held

    def __call__(self) -> int:
        self.looks += 1
        if self.looks == 2:
            self.held.release()
            raise PipelineError("no answer")
        return 5

    def close(self) -> None:
        self.is_closed = True


class HereTests(SynchronousTestCase):
    """Tasks in this process."""

    def test_results(self) -> None:
        """They are done one after the other."""
        done: list[int] = []
        self.assertEqual(Here().run("x", [1, 2], double, lambda task: task, done.append), [2, 4])
        self.assertEqual((done, Here().parallelism), ([1, 2], 1))
