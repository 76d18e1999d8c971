"""Tests for L{rustlog.storage.segments.inspection} and L{rustlog.storage.segments.verification}."""

from __future__ import annotations

from pathlib import PurePath

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import StartupError
from rustlog.model import TopicPartition
from rustlog.storage.segments.files import base_offsets
from rustlog.storage.segments.inspection import (
    Problem,
    StoredBatch,
    StoredPartition,
    check_format,
    walk,
)
from rustlog.storage.segments.verification import PartitionReport, total_size, verify
from rustlog.testing.environment import memory_environment
from tests.unit.storage.segments.lives import DATA_DIR, Lives

BATCH_BYTES_MAX = 130
PARTITION = DATA_DIR / "logs" / "orders" / "0"


class VerifyCase(SynchronousTestCase):
    """A data directory with 60 records in several segments of its first partition."""

    def setUp(self) -> None:
        self.lives = Lives(memory_environment())
        self.lives.open()
        for _ in range(20):
            self.lives.finish(self.lives.send(0, 3))
            self.lives.pass_time(0.01)
        self.files = self.lives.environment.files
        self.bases = base_offsets(self.files.names(PARTITION))
        assert len(self.bases) > 3, self.bases

    def reports(self) -> tuple[list[PartitionReport], list[Problem]]:
        found = list(verify(self.files, DATA_DIR))
        reports = [each for each in found if isinstance(each, PartitionReport)]
        problems = [each for each in found if isinstance(each, Problem)]
        return reports, problems + [problem for each in reports for problem in each.problems]

    def problems(self) -> list[Problem]:
        return self.reports()[1]

    def check_problem(
        self, path: PurePath, position: int | None, message: str, is_damage: bool = True
    ) -> None:
        (problem,) = self.problems()
        self.assertEqual((problem.path, problem.position, problem.is_damage), (path, position, is_damage))
        self.assertIn(message, problem.message)


class SoundTests(VerifyCase):
    """What is as it should be."""

    def check(self) -> None:
        (first, second), problems = self.reports()
        self.assertEqual(problems, [])
        self.assertEqual((first.next_offset, first.records, first.batches), (60, 60, 20))
        self.assertEqual(first.segments, len(self.bases))
        self.assertEqual((second.next_offset, second.records, second.segments), (0, 0, 0))
        self.assertEqual(total_size(self.files, DATA_DIR), first.size)

    def test_open(self) -> None:
        """A directory may be verified while a broker uses it; its files stay as they are."""
        before = {name: self.files.content(PARTITION / name) for name in self.files.names(PARTITION)}
        self.check()
        self.assertEqual(
            {name: self.files.content(PARTITION / name) for name in self.files.names(PARTITION)}, before
        )

    def test_closed(self) -> None:
        """After a stop in good order, too; then the indexes of the last segment are checked as well."""
        self.lives.close()
        self.check()

    def test_crashed(self) -> None:
        """And after a loss of power: everything was synced."""
        self.lives.die()
        self.check()

    def test_progress(self) -> None:
        """Whoever waits hears how many bytes have been read."""
        seen: list[int] = []
        list(verify(self.files, DATA_DIR, seen.append))
        self.assertEqual(sum(seen), total_size(self.files, DATA_DIR))

    def test_deleted_records(self) -> None:
        """What was deleted from the beginning is not missed."""
        assert self.lives.store is not None
        self.lives.finish(self.lives.store.delete_records(self.lives.partition(0), 31))
        self.lives.close()
        (first, _), problems = self.reports()
        self.assertEqual((problems, first.log_start_offset, first.next_offset), ([], 31, 60))

    def test_vanishing_segment(self) -> None:
        """A segment that retention removes while it is looked for is no damage."""
        partition = StoredPartition(TopicPartition("orders", 0), PARTITION, None)
        self.files.unlink(PARTITION / "0.log")
        found = list(walk(self.files, partition, self.bases))
        self.assertEqual([each for each in found if isinstance(each, Problem)], [])
        assert isinstance(found[0], StoredBatch)
        self.assertEqual(found[0].batch.base_offset, self.bases[1])


class DamageTests(VerifyCase):
    """What is not."""

    def test_every_byte_of_a_log(self) -> None:
        """Whichever byte of a segment changes, it is noticed, in the right file."""
        self.lives.close()
        path = PARTITION / f"{self.bases[1]}.log"
        content = self.files.content(path)
        for position in range(0, len(content), 7):
            damaged = bytearray(content)
            damaged[position] ^= 0x55
            self.files.put(path, bytes(damaged))
            found = [each for each in self.problems() if each.path == path and each.is_damage]
            self.assertEqual(len(found), 1, f"at {position}")
            assert found[0].position is not None
            # A leader epoch that is too high is noticed when the next one is lower.
            self.assertLessEqual(found[0].position, position + BATCH_BYTES_MAX)

    def test_checksum(self) -> None:
        """The offset tells which records can not be read."""
        size = self.files.size(PARTITION / "0.log")
        self.files.flip_bit(PARTITION / "0.log", size - 1)
        (problem,) = self.problems()
        self.assertRegex(str(problem), r"/0/0\.log at \d+: the checksum does not match \(offset \d+\)")

    def test_hole(self) -> None:
        """A segment that is missing in the middle is noticed."""
        self.files.unlink(PARTITION / f"{self.bases[1]}.log")
        self.check_problem(PARTITION / f"{self.bases[2]}.log", 0, f"begins at offset {self.bases[2]}, but")

    def test_lost_tail(self) -> None:
        """A log that ends before its checkpoint is."""
        self.lives.close()
        self.files.unlink(PARTITION / f"{self.bases[-1]}.log")
        self.check_problem(PARTITION, None, "but it has been at 60")

    def test_lost_files(self) -> None:
        """So is one of which nothing is left."""
        self.lives.close()
        for name in self.files.names(PARTITION):
            self.files.unlink(PARTITION / name)
        self.check_problem(PARTITION, None, "the log ends at offset 0, but it has been at 60")

    def test_torn(self) -> None:
        """A batch that was never completed is not damage: it was not acknowledged."""
        path = PARTITION / f"{self.bases[-1]}.log"
        whole = self.files.content(path)
        self.files.put(path, whole + self.files.content(PARTITION / "0.log")[:40])
        self.check_problem(path, len(whole), "the last 40 bytes are no whole batch", is_damage=False)

    def test_torn_before_the_checkpoint(self) -> None:
        """What was synced can not be torn."""
        self.lives.close()
        path = PARTITION / f"{self.bases[-1]}.log"
        self.files.put(path, self.files.content(path)[:-1])
        (problem, *_) = self.problems()
        self.assertEqual((problem.path, problem.is_damage), (path, True))

    def test_damage_in_the_last_segment(self) -> None:
        """If whole batches follow it was not torn."""
        self.lives.finish(self.lives.send(0, 3))
        path = PARTITION / f"{base_offsets(self.files.names(PARTITION))[-1]}.log"
        content = self.files.content(path)
        if content.count(b"value") < 6:
            self.lives.finish(self.lives.send(0, 3))
        self.files.flip_bit(path, 70)
        (problem,) = self.problems()
        self.assertEqual((problem.position, problem.is_damage), (0, True))

    def test_epochs(self) -> None:
        """Leader epochs never go back."""
        path = PARTITION / "0.log"
        content = bytearray(self.files.content(path))
        content[15] = 9
        self.files.put(path, bytes(content))
        (problem,) = self.problems()
        self.assertIn("leader epoch 0 follows 9", problem.message)


class IndexTests(VerifyCase):
    """Indexes are disposable, but tell of a bad disk."""

    def setUp(self) -> None:
        super().setUp()
        self.lives.close()

    def test_every_byte(self) -> None:
        """Whichever byte of an index changes, it is noticed."""
        for name in ("0.index", "0.timeindex", f"{self.bases[-1]}.index", f"{self.bases[-1]}.timeindex"):
            path = PARTITION / name
            content = self.files.content(path)
            for position in range(len(content)):
                damaged = bytearray(content)
                damaged[position] ^= 0x01
                self.files.put(path, bytes(damaged))
                (problem,) = self.problems()
                self.assertEqual((problem.path, problem.is_damage), (path, True), f"{name} at {position}")
            self.files.put(path, content)

    def test_missing(self) -> None:
        """One that is missing is made anew."""
        self.files.unlink(PARTITION / "0.index")
        self.check_problem(PARTITION / "0.index", None, "it is missing", is_damage=False)

    def test_short(self) -> None:
        """The active segment's index has as many entries as the checkpoint says."""
        path = PARTITION / f"{self.bases[-1]}.index"
        self.files.put(path, self.files.content(path)[:-8])
        self.check_problem(path, self.files.size(path), "it has less than")


class DocumentTests(VerifyCase):
    """The documents around the logs."""

    def setUp(self) -> None:
        super().setUp()
        self.lives.close()

    def test_damaged(self) -> None:
        """Each has a checksum."""
        (topic_id,) = self.files.names(DATA_DIR / "checkpoints")
        for name in ("STATE", "topics/orders.json", f"checkpoints/{topic_id}/0.json"):
            path = DATA_DIR / name
            content = self.files.content(path)
            self.files.put(path, content.replace(b'"', b"'", 1))
            problem = self.problems()[0]
            self.assertEqual((problem.path, problem.is_damage), (path, True))
            self.files.put(path, content)

    def test_strange_topic(self) -> None:
        """A document that describes no topic is reported."""
        content = self.files.content(DATA_DIR / "STATE")
        self.files.put(DATA_DIR / "topics" / "orders.json", content)
        self.assertIn("describes no topic", self.problems()[0].message)

    def test_missing_state(self) -> None:
        """Where there are topics there is a state."""
        self.files.unlink(DATA_DIR / "STATE")
        self.check_problem(DATA_DIR / "STATE", None, "it is missing")

    def test_stranger(self) -> None:
        """A log that belongs to no topic is named."""
        self.files.make_directory(DATA_DIR / "logs" / "stranger")
        self.check_problem(DATA_DIR / "logs" / "stranger", None, "belongs to no topic", is_damage=False)

    def test_format(self) -> None:
        """What is not a data directory of this store is refused, with the reason."""
        check_format(self.files, DATA_DIR)
        for content, reason in (
            (b"{}", "restore it from a backup"),
            (None, "is not a data directory: there is no file FORMAT in it"),
        ):
            if content is None:
                self.files.unlink(DATA_DIR / "FORMAT")
            else:
                self.files.put(DATA_DIR / "FORMAT", content)
            error = self.assertRaises(StartupError, check_format, self.files, DATA_DIR)
            self.assertIn(reason, str(error))
