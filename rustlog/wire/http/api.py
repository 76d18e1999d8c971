"""
What the paths of the HTTP listener give.
"""

from __future__ import annotations

from collections.abc import Generator
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks

from rustlog.broker import Broker
from rustlog.model import GroupDescription, GroupProgress, RequestContext, TopicInfo, TopicPartition
from rustlog.monitoring import STEP, Monitoring
from rustlog.observability.figures import Figures
from rustlog.observability.metrics import CONTENT_TYPE
from rustlog.wire.http.answers import HTML, TEXT, Answer, json_answer
from rustlog.wire.http.pages import index_page

PROBLEMS_MAX = 100
"""How many reasons are given for not being ready."""

Steps = Generator["Deferred[Any]", Any, Answer]


@frozen
class Api:
    """
    One method for each path.  Each returns an answer, or a Deferred of one; or raises, or fails with, a
    L{RustlogError <rustlog.errors.RustlogError>}.
    """

    broker: Broker
    monitoring: Monitoring

    # -- for probes --

    def healthz(self, context: RequestContext) -> Answer:
        """Whoever answers this is alive, and its reactor turns."""
        return Answer(b"ok\n")

    def readyz(self, context: RequestContext) -> Answer:
        """Whether clients should be sent here."""
        problems = self.monitoring.problems()
        if not problems:
            return Answer(b"ready\n")
        if len(problems) > PROBLEMS_MAX:
            problems[PROBLEMS_MAX:] = [f"and {len(problems) - PROBLEMS_MAX} more"]
        text = "".join(f"{each}\n" for each in problems)
        return Answer(text.encode(), TEXT, HTTPStatus.SERVICE_UNAVAILABLE)

    def metrics(self, context: RequestContext) -> Deferred[Answer]:
        return self.monitoring.metrics_text().addCallback(lambda text: Answer(text, CONTENT_TYPE))

    # -- for people --

    def index(self, context: RequestContext) -> Deferred[Answer]:
        def page(figures: Figures) -> Answer:
            monitoring = self.monitoring
            return Answer(index_page(figures, monitoring.problems(), monitoring.uptime_seconds), HTML)

        return self.monitoring.figures().addCallback(page)

    # -- for programs --

    def topics(self, context: RequestContext) -> Deferred[Answer]:
        return self.monitoring.figures().addCallback(_topics)

    @inlineCallbacks
    def topic(self, context: RequestContext, name: str) -> Steps:
        info = self.broker.topic(context, name)
        partitions = []
        for index in range(info.partitions):
            partitions.append((yield self._partition(context, TopicPartition(name, index))))
            if index % STEP == STEP - 1:
                yield self.monitoring.pause()
        return json_answer({**self._described(info), "partitions": partitions})

    @inlineCallbacks
    def _partition(self, context: RequestContext, name: TopicPartition) -> Generator[Deferred[Any], Any, Any]:
        start, end = self.broker.bounds(context, name)
        description = yield self.broker.administration.describe_partition(context, name)
        return {
            "partition": name.partition,
            "log_start_offset": start,
            "high_watermark": end,
            "leader_epoch": self.broker.leader_epoch(context, name),
            "bytes": description.size,
            "segments": len(description.segments),
        }

    def _described(self, info: TopicInfo) -> dict[str, object]:
        settings = self.broker.administration.settings_of(info)
        return {
            "name": info.name,
            "id": str(info.id),
            "internal": info.internal,
            "config": dict(info.config),
            "settings": {
                each.setting.name: {"value": each.value, "source": each.source.value} for each in settings
            },
        }

    def groups(self, context: RequestContext) -> Deferred[Answer]:
        return self.monitoring.figures().addCallback(_groups)

    def group(self, context: RequestContext, name: str) -> Deferred[Answer]:
        return self.broker.describe_group(context, name).addCallback(_group)


def _topics(figures: Figures) -> Answer:
    topics = [
        {
            "name": each.name,
            "partitions": each.partitions,
            "internal": each.internal,
            "records": each.records,
            "bytes": each.size,
        }
        for each in figures.topics
    ]
    return json_answer({"topics": topics})


def _groups(figures: Figures) -> Answer:
    groups = [{"group": each.name, "partitions": len(each.lags), "lag": each.lag} for each in figures.groups]
    return json_answer({"groups": groups})


def _group(description: GroupDescription) -> Answer:
    offsets = [_progress(each) for each in description.offsets]
    lag = sum(each.lag or 0 for each in description.offsets)
    return json_answer({"group": description.group, "lag": lag, "offsets": offsets})


def _progress(progress: GroupProgress) -> dict[str, object]:
    return {
        "topic": progress.partition.topic,
        "partition": progress.partition.partition,
        "offset": progress.committed.offset,
        "leader_epoch": progress.committed.leader_epoch,
        "metadata": progress.committed.metadata,
        "commit_time": progress.committed.commit_time,
        "log_start_offset": progress.log_start_offset,
        "high_watermark": progress.high_watermark,
        "lag": progress.lag,
    }
