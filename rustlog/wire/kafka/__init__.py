"""
The Kafka protocol.

Importing this package imports C{kio}, in a way of its own: where hypothesis is installed, C{kio} registers
strategies for its types with it, which takes more than a second.  Nobody here wants them.
"""

import sys
from importlib import import_module

_hypothesis = sys.modules.get("hypothesis")
sys.modules["hypothesis"] = None  # type: ignore[assignment]
try:
    import_module("kio.static.primitive")
finally:
    del sys.modules["hypothesis"]
    if _hypothesis is not None:
        sys.modules["hypothesis"] = _hypothesis
