"""
Which partition each row of a column of keys belongs to: the same as for Kafka's own clients.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

NULL_RUN = 1024
"""So many rows without a key go to one partition before it is the next one's turn: full batches, evenly spread."""


class Partitioner:
    """
    Kafka's default: by the murmur2 hash of the key; rows without a key in runs, one partition after the other.

    @param first: where the first run goes; different tasks should begin at different places.
    """

    def __init__(self, partitions: int, first: int = 0) -> None:
        self._partitions = partitions
        self._next = first

    def assign(self, keys: pa.Array) -> NDArray[np.int32]:
        """The partition of each row; an empty key is a key, null is none."""
        raise NotImplementedError


def murmur2(keys: pa.Array) -> NDArray[np.uint32]:
    """The hashes of keys, none of which is null."""
    raise NotImplementedError
