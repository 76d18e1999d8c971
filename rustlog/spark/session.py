"""
A SparkSession in which C{format("rustlog")} is known, and which starts without noise.

For programs of our own, and for whoever likes it short:

    spark = open_session()
    spark.read.format("rustlog").option(…)

Whoever has a session already says L{register <rustlog.spark.register>}C{(spark)} instead.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rustlog.spark.errors import BadOption, PipelineError
from rustlog.spark.java import cache_directory, find_java, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"

DEFAULTS = {
    # Rows come from Python's processes, and faster in larger pieces.
    "spark.buffer.size": str(2**20),
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What a session has unless something else is asked for."""

LOCAL_DEFAULTS = {"spark.sql.shuffle.partitions": "8"}
"""On one machine: the usual 200 are 200 files of state for every micro-batch."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOGGING = """\
# What a session of rustlog says: errors, to stderr.
rootLogger.level = ${sys:rustlog.spark.logging:-error}
rootLogger.appenderRef.stderr.ref = stderr
# Spark announces it when this one differs from the one above.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = ${sys:rustlog.spark.logging:-error}
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


class NoSpark(PipelineError):
    """The extra was not installed."""

    def __str__(self) -> str:
        return "Spark is not installed: say 'pip install rustlog[spark]'"


def open_session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    name: str = "rustlog",
    level: str = "error",
) -> SparkSession:
    """
    Start Spark, or take the session that there is.

    @param master: as C{spark-submit --master} has it; by default all cores of this machine.
    @param conf: Spark's own settings; they come before L{DEFAULTS}.
    @param level: how much Spark says, by the name of a level.
    @raise NoSpark: it is not installed.
    @raise NoJava: there is no Java.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise NoSpark() from None
    from rustlog.spark import register

    master = master or DEFAULT_MASTER
    settings = {**DEFAULTS, **(LOCAL_DEFAULTS if _is_local(master) else {}), **(conf or {})}
    settings[_JAVA_OPTIONS] = _with_logging(settings.get(_JAVA_OPTIONS, ""), level)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _environment_for_start(master):
        spark = builder.getOrCreate()
    # An error is raised; that PySpark logs it as well, with all of Java's stack, helps nobody.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    register(spark)
    return spark


def parse_conf(settings: list[str]) -> dict[str, str]:
    """
    Understand C{--conf KEY=VALUE}, given any number of times.

    @raise BadOption: one of them is something else.
    """
    parsed = {}
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals or not key.startswith("spark."):
            raise BadOption("--conf", f"{each!r} is not like spark.KEY=VALUE")
        parsed[key] = value
    return parsed


@contextmanager
def _environment_for_start(master: str) -> Iterator[None]:
    """
    The variables that count when Java is started, for that moment; and those of the workers, for ever: a
    worker that is another Python would not find what this one has.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    before = {each: os.environ.get(each) for each in ("JAVA_HOME", "SPARK_LOCAL_IP")}
    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    if _is_local(master):
        # Otherwise Spark looks for an address of this machine, warns, and is reachable from outside.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _with_logging(java_options: str, level: str) -> str:
    """A user's own configuration of logging is left alone."""
    if "log4j" in java_options:
        return java_options
    ours = f"-Dlog4j2.configurationFile={_logging_file().as_uri()} -Drustlog.spark.logging={level}"
    return f"{java_options} {ours}".strip()


def _logging_file() -> Path:
    path = cache_directory() / "spark-logging.properties"
    if not path.exists() or path.read_text() != _LOGGING:
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_text(_LOGGING)
        unfinished.replace(path)
    return path
