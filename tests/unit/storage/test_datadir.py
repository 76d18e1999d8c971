"""
A data directory belongs to one process and one format at a time.
"""

from __future__ import annotations

from pathlib import PurePath

from twisted.trial.unittest import SynchronousTestCase

from rustlog.errors import StartupError
from rustlog.storage.datadir import DataDirectory, StoreState, remove_temporaries
from rustlog.testing.environment import memory_environment

ROOT = PurePath("/var/lib/rustlog")


class DataDirectoryTests(SynchronousTestCase):
    """Claiming a directory, and what it remembers."""

    def setUp(self) -> None:
        self.environment = memory_environment()
        self.files = self.environment.files

    def claim(self, format_name: str = "segments", version: int = 1) -> DataDirectory:
        return DataDirectory.claim(self.files, ROOT, format_name, version)

    def refusal(self, format_name: str = "segments", version: int = 1) -> str:
        with self.assertRaises(StartupError) as caught:
            self.claim(format_name, version)
        return str(caught.exception)

    def test_made_for_good(self) -> None:
        """A directory that did not exist is there after a crash, and the claim with it."""
        self.claim()
        self.files.crash()
        self.assertIn("FORMAT", self.files.names(ROOT))

    def test_in_use(self) -> None:
        """A second process is told that the directory is in use; once released, it may have it."""
        held = self.claim()
        self.assertEqual(self.refusal(), f"the data directory {ROOT} is in use by another process")
        held.release()
        self.claim()

    def test_other_format(self) -> None:
        """What another store wrote is refused with its name, and the lock is free again."""
        self.claim("acme", 3).release()
        self.assertEqual(
            self.refusal(),
            f"{ROOT} was written by the store 'acme' (version 3), not by 'segments' (version 1); "
            "choose that --storage or another --data-dir",
        )
        self.claim("acme", 3)

    def test_other_version(self) -> None:
        """A later version of the format is not taken for ours."""
        self.claim(version=2).release()
        self.assertIn("(version 2)", self.refusal())

    def test_unmarked_logs(self) -> None:
        """Logs that nobody has signed are left alone."""
        self.files.make_directory(ROOT / "logs")
        self.assertIn("has a directory logs/ but no file FORMAT", self.refusal())
        self.assertNotIn("FORMAT", self.files.names(ROOT))

    def test_damaged_marker(self) -> None:
        """A marker that can not be read is not replaced by a guess."""
        self.claim().release()
        self.files.put(ROOT / "FORMAT", b"{}")
        self.assertIn("restore it from a backup", self.refusal())

    def test_crash_while_claiming(self) -> None:
        """Whenever the power fails during the first claim, the next one succeeds."""
        for call in range(1, 100):
            self.setUp()
            self.files.crash_at_call(call)
            try:
                self.claim()
            except BaseException:
                self.files.crash()
                self.claim()
            else:
                return
        self.fail("claiming never came to an end")

    def test_state(self) -> None:
        """What was written last is read; at first it is that of an empty store."""
        directory = self.claim()
        self.assertEqual(directory.read_state(is_empty=True), StoreState())
        state = StoreState(leader_epoch=3, next_producer_id=1000, clean=False, sync="250")
        directory.write_state(state)
        self.assertEqual(directory.read_state(is_empty=False), state)

    def test_missing_state(self) -> None:
        """Where there are topics there must be a state: without, epochs would be given twice."""
        with self.assertRaises(StartupError) as caught:
            self.claim().read_state(is_empty=False)
        self.assertEqual(str(caught.exception), f"{ROOT}/STATE is missing; restore it from a backup")

    def test_lost_tail(self) -> None:
        """A tail may be lost only if the stop was unclean and acknowledgements did not mean the disk."""
        self.assertTrue(StoreState(clean=False, sync="250").may_have_lost_a_tail)
        self.assertTrue(StoreState(clean=False, sync="never").may_have_lost_a_tail)
        self.assertFalse(StoreState(clean=False, sync="always").may_have_lost_a_tail)
        self.assertFalse(StoreState(clean=True, sync="never").may_have_lost_a_tail)

    def test_temporaries(self) -> None:
        """Half-written documents are removed, others stay."""
        self.files.make_directory(ROOT)
        self.files.put(ROOT / "a.json", b"")
        self.files.put(ROOT / "b.json~", b"")
        remove_temporaries(self.files, ROOT)
        self.assertEqual(self.files.names(ROOT), ["a.json"])
