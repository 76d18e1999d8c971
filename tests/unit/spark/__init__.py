"""Tests of what lies below Spark.  They need what the extra C{spark} brings."""

from importlib.util import find_spec
from unittest import SkipTest

for _name in ("numpy", "pyarrow"):
    if find_spec(_name) is None:
        raise SkipTest(f"{_name} is not installed; the extra rustlog[spark] brings it")
