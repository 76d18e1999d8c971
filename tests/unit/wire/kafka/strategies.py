"""What property tests of the hand-written codecs try."""

from __future__ import annotations

from hypothesis import strategies as st

i8 = st.integers(-(2**7), 2**7 - 1)
i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=20)
ids = st.uuids()
records = st.none() | st.binary(max_size=200)
codes = st.sampled_from([-1, 0, 1, 2, 3, 6, 10, 87, 100])


def some(items: st.SearchStrategy, at_most: int = 3) -> st.SearchStrategy:
    return st.lists(items, max_size=at_most)
