"""Tests for L{rustlog.spark.partitioning}."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rustlog.client import partitioning as plain
from rustlog.spark import partitioning
from rustlog.spark.partitioning import NULL_RUN, Partitioner, murmur2


class PartitioningTests(SynchronousTestCase):
    """Which partition rows belong to."""

    def test_hashes(self) -> None:
        """The same as for one key at a time, whatever their sizes are, and in parts of arrays."""

        @settings(max_examples=30, deadline=None)
        @given(st.lists(st.binary(max_size=30) | st.just(b"long" * 99), max_size=60), st.integers(0, 5))
        def check(keys: list[bytes], first: int) -> None:
            column = pa.array(keys, pa.binary())[first:]
            self.assertEqual(murmur2(column).tolist(), [plain.murmur2(key) for key in keys[first:]])

        check()
        self.patch(partitioning, "_LOCKSTEP_KEYS_MIN", 1)
        check()

    def test_known_hashes(self) -> None:
        """Those of Kafka's own test."""
        longest = b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8"
        keys = [b"21", b"foobar", b"a-little-bit-long-string", longest]
        found = murmur2(pa.array(keys, pa.binary())).view(np.int32).tolist()
        self.assertEqual(found, [-973932308, -790332482, -985981536, -58897971])

    def test_keys(self) -> None:
        """Rows with the same key go where other clients send them; an empty key is one."""
        keys = [b"", b"a", "ü".encode(), None, b"a"]
        found = Partitioner(5).assign(pa.array(keys, pa.binary()))
        for key, partition in zip(keys, found.tolist(), strict=True):
            if key is not None:
                self.assertEqual(partition, plain.partition_for(key, 5))
        texts = Partitioner(5).assign(pa.array(["ü"]))
        self.assertEqual(texts.tolist(), [plain.partition_for("ü".encode(), 5)])

    def test_no_keys(self) -> None:
        """Rows without keys go in runs, from one partition to the next, also from call to call."""
        partitioner = Partitioner(3, first=2)
        runs: list[int] = []
        for size in (NULL_RUN - 1, 1, NULL_RUN * 3, 10, 0):
            runs += partitioner.assign(pa.nulls(size, pa.binary())).tolist()
        changes = [runs[0], *(now for before, now in pairwise(runs) if now != before)]
        self.assertEqual(changes, [2, 0, 1, 2, 0])
        self.assertEqual(runs[:NULL_RUN], [2] * NULL_RUN)
