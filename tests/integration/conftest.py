"""Fixtures of the tests that run a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon import Daemon
from tests.integration.installation import Installation


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Makes brokers on one data directory; none of them outlives the test."""
    made: list[Daemon] = []

    def make(*options: str, **more: Any) -> Daemon:
        made.append(Daemon(tmp_path, *options, **more))
        return made[-1]

    yield make
    for each in made:
        each.kill()


@pytest.fixture(params=["memory", "segments"])
def storage(request: pytest.FixtureRequest) -> str:
    """Every log store."""
    return str(request.param)


@pytest.fixture
def daemon(make_daemon: Callable[..., Daemon], storage: str) -> Daemon:
    """A broker that is ready, one for each store."""
    return make_daemon(f"--storage={storage}").start()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of Spark, one for all tests: it takes seconds to start."""
    pytest.importorskip("pyspark")
    from tests.integration import spark_jobs

    session = spark_jobs.session()
    yield session
    session.stop()


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """A fresh one, without rustlog."""
    return Installation(tmp_path)
