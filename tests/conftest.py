"""What all tests under pytest have in common."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def scratch_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cwd")


@pytest.fixture(autouse=True)
def work_in_scratch_directory(scratch_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C{mktemp} of trial's test cases makes directories where it is; trial itself moves away before."""
    monkeypatch.chdir(scratch_directory)
