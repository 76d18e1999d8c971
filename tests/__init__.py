"""
The tests: C{unit} for trial and pytest alike, C{integration} with real processes for pytest.
"""

import os

from hypothesis import settings

# The same examples in every run, unless someone looks for new ones.
settings.register_profile("rustlog", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "rustlog"))
