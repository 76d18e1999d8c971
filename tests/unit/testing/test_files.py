"""Tests for L{rustlog.testing.files}: the contract itself, on the simulated disk."""

from __future__ import annotations

from pathlib import PurePath
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from rustlog.testing.disk import SimulatedDisk
from rustlog.testing.files import FilesContract


class SimulatedFilesContractTests(FilesContract, SynchronousTestCase):
    """The simulated disk does what every disk must do."""

    def setUp(self) -> None:
        self.files = SimulatedDisk(Random(1))
        self.root = PurePath("/somewhere")
        self.files.make_directory(self.root)


class RelativePathContractTests(FilesContract, SynchronousTestCase):
    """The same with paths that do not begin at the root."""

    def setUp(self) -> None:
        self.files = SimulatedDisk(Random(2))
        self.root = PurePath("some", "where")
        self.files.make_directory(self.root)
