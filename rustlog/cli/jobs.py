"""
Runs the jobs of C{rustlog pipeline}, and tells of them.

Each command plans first, which needs no Spark: what can be refused is refused then, and C{--plan} ends there.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from rustlog.cli.arguments import milliseconds
from rustlog.cli.output import Progress, count, human_size, table, time_text
from rustlog.cli.session import CommandFailed, Session

if TYPE_CHECKING:
    from rustlog.spark.jobs.archive import ArchivePlan
    from rustlog.spark.jobs.audit import Audit
    from rustlog.spark.jobs.copying import CopyPlan
    from rustlog.spark.jobs.delivery import Delivered
    from rustlog.spark.jobs.replay import ReplayPlan
    from rustlog.spark.jobs.running import Cluster
    from rustlog.spark.jobs.sources import Piece, Source
    from rustlog.spark.jobs.values import Report
    from rustlog.spark.settings import ClientSettings

KAFKA_VARIABLE = "RUSTLOG_KAFKA"
DEFAULT_KAFKA = "127.0.0.1:9092"

FINDINGS = 1
NOT_RUN = 2
UNREACHABLE = 3

_GO_ON = "call it again, and it goes on"
_KNOCK_SECONDS = 3.0


# -- archive and replay ----------------------------------------------------------------


def archive(session: Session) -> int:
    with _job(session) as job:
        from rustlog.spark.jobs.archive import ArchiveOptions, begin, plan_archive

        said = session.options
        options = ArchiveOptions(
            target=said.target,
            kind=said.format,
            topics=said.topics,
            piece_bytes=said.task_bytes,
            commit_bytes=said.commit_bytes,
            allows_gaps=said.allow_gaps,
        )
        source = job.source()
        if said.plan:
            _show_plan(session, job.planned(lambda done: plan_archive(source, options, done), said.target))
            return 0
        archiving = begin(source, options, token_hex(8), job.now_ms)
        try:
            while True:
                _archive_once(session, job, archiving)
                if not said.follow:
                    break
                session.console.pace.sleep(said.interval)
        except KeyboardInterrupt:
            job.interrupted = f"{_archived(archiving.total)} before; {_GO_ON}"
            if said.follow:
                job.interrupted = _archived(archiving.total)
            raise
        finally:
            archiving.close()
        total = archiving.total
        session.tell(
            f"{_archived(total)} in {said.target}\n",
            {
                "archive": said.target,
                "records": total.records,
                "commits": total.commits,
                "files": total.files,
                "bytes": total.size,
            },
        )
    return 0


def _archive_once(session: Session, job: _Job, archiving: Any) -> None:
    plan: ArchivePlan = archiving.plan()
    for name, start, end in plan.lost:
        session.remark(f"rustlog: offsets {start} to {end - 1} of {name} are gone, and were never archived")
    with job.progress(plan.size, "archived") as progress:
        for manifest in archiving.run(job.cluster, plan, progress.advance):
            if session.options.follow and not session.options.json:
                progress.clear()
                session.remark(f"commit {manifest.number}: {count(manifest.records, 'record')}")


def _archived(total: Any) -> str:
    return (
        f"{count(total.records, 'record')} archived in {count(total.commits, 'commit')}, "
        f"{count(total.files, 'file')}, {human_size(total.size)}"
    )


def replay(session: Session) -> int:
    with _job(session) as job:
        from rustlog.spark.jobs import replay as jobs
        from rustlog.spark.jobs.replay import ReplayOptions, plan_replay

        said = session.options
        options = ReplayOptions(
            archive=said.archive,
            settings=job.settings(knocks=not said.plan),
            state=job.state("replay", said.archive, *(f"{old}={new}" for old, new in sorted(said.topics))),
            topics=[old for old, _ in said.topics],
            renamed=dict(said.topics),
            records_per_second=said.rate,
            bytes_per_second=said.rate_bytes,
            codec=job.codec(),
            appends=said.append,
            config=dict(said.set),
        )
        plan = plan_replay(options)
        if said.plan:
            _show_replay(session, plan)
            return 0
        state = jobs.begin(options, plan)
        left = jobs.left(options, plan, state)
        if not left:
            return _was_done(session, ", ".join(sorted({each.target for each in plan.sources})))
        with job.progress(left, "sent", records=True) as progress:
            sent = jobs.replay(job.cluster, options, plan, state, job.now_ms(), progress.advance)
        _tell_sent(session, sent)
    return 0


# -- audit and report ------------------------------------------------------------------


def audit(session: Session) -> int:
    with _job(session, status=NOT_RUN) as job:
        from pathlib import PurePath

        from rustlog.environment.readonly import ReadOnlyFiles
        from rustlog.spark.jobs.audit import audit as run
        from rustlog.spark.jobs.audit import plan_audit

        plan = plan_audit(ReadOnlyFiles(), PurePath(session.options.directory), session.options.topics)
        if session.options.plan:
            rows = [
                (each.partition.name.topic, each.partition.name.partition, each.base_offset, each.size)
                for each in plan.tasks
            ]
            session.tell(
                table(("TOPIC", "PARTITION", "SEGMENT", "BYTES"), rows)
                + f"{count(len(plan.tasks), 'task')}, {human_size(plan.size)}\n",
                {
                    "tasks": [
                        dict(zip(("topic", "partition", "segment", "bytes"), row, strict=True))
                        for row in rows
                    ]
                },
            )
            return 0
        with job.progress(plan.size, "verified") as progress:
            found = run(job.cluster, plan, job.now_ms(), progress.advance)
        _tell_audit(session, found)
        return FINDINGS if found.is_damaged else 0


def _tell_audit(session: Session, found: Audit) -> None:
    titles = (
        "TOPIC",
        "PARTITION",
        "START",
        "END",
        "SEGMENTS",
        "BATCHES",
        "RECORDS",
        "BYTES",
        "YOUNGEST",
        "PROBLEMS",
    )
    rows = [
        (
            each.name.topic,
            each.name.partition,
            each.log_start_offset,
            each.next_offset,
            each.segments,
            each.batches,
            each.records,
            each.size,
            time_text(each.max_timestamp),
            len(each.problems),
        )
        for each in found.partitions
    ]
    problems = "".join(f"{'damaged' if each.is_damage else 'note'}: {each}\n" for each in found.problems)
    verdict = "DAMAGED" if found.is_damaged else "no damage"
    total = f"{count(len(rows), 'partition')}, {count(sum(row[6] for row in rows), 'record')}: {verdict}\n"
    session.tell(
        table(titles, rows) + problems + total,
        {
            "damaged": found.is_damaged,
            "partitions": [dict(zip((title.lower() for title in titles), row, strict=True)) for row in rows],
            "problems": [
                {
                    "path": str(each.path),
                    "position": each.position,
                    "message": each.message,
                    "damage": each.is_damage,
                }
                for each in found.problems
            ],
        },
    )


def report(session: Session) -> int:
    with _job(session) as job:
        from rustlog.spark.jobs.page import page
        from rustlog.spark.jobs.report import ReportOptions, plan_report
        from rustlog.spark.jobs.report import report as run

        said, local = session.options, session.console.local_time
        options = ReportOptions(
            topics=said.topics,
            since_ms=None if said.since is None else milliseconds(said.since, local),
            until_ms=None if said.until is None else milliseconds(said.until, local),
        )
        source = job.source()
        plan = plan_report(source, options)
        if said.plan:
            _show_pieces(session, plan.pieces, said.html or "standard output")
            return 0
        with job.progress(plan.size, "read") as progress:
            found = run(job.cluster, options, plan, job.now_ms(), progress.advance)
        if said.html is not None:
            _write(said.html, page(found))
        _tell_report(session, found)
    return 0


def _write(path: str, text: str) -> None:
    from pathlib import PurePath

    from rustlog.environment.files import RealFiles

    files, target = RealFiles(), PurePath(path)
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        file = files.open(unfinished, create=True)
        try:
            file.truncate(0)
            file.append([text.encode()])
        finally:
            file.close()
        files.rename(unfinished, target)
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror or error}") from None


def _tell_report(session: Session, found: Report) -> None:
    titles = ("TOPIC", "HOUR", "RECORDS", "BYTES", "P50", "P95", "P99", "MAX", "KEYS", "TOMBSTONES")
    rows = [
        (
            each.topic,
            "all" if each.hour_ms is None else (time_text(each.hour_ms) or "")[:13],
            each.records,
            each.bytes,
            each.size_p50,
            each.size_p95,
            each.size_p99,
            each.size_max,
            each.keys,
            each.tombstones,
        )
        for each in sorted(
            (*found.hours, *found.totals), key=lambda row: (row.topic, row.hour_ms is None, row.hour_ms or 0)
        )
    ]
    lags = [(each.group, each.topic, (time_text(each.hour_ms) or "")[:13], each.lag) for each in found.lags]
    text = table(titles, rows)
    if lags:
        text += "\n" + table(("GROUP", "TOPIC", "HOUR", "LAG"), lags)
    from attrs import asdict

    session.tell(
        text,
        {
            "source": found.source,
            "made": time_text(found.made_ms),
            "topics": [asdict(each) for each in found.totals],
            "hours": [asdict(each) for each in found.hours],
            "lags": [asdict(each) for each in found.lags],
        },
    )


# -- rekey and compact -----------------------------------------------------------------


def rekey(session: Session) -> int:
    with _job(session) as job:
        from rustlog.spark.jobs.copying import plan_copy
        from rustlog.spark.jobs.rekey import RekeyOptions, begin_rekey
        from rustlog.spark.jobs.rekey import rekey as run

        said = session.options
        plan = plan_copy(job.source(), said.topic, said.target, said.partitions)
        if said.plan:
            _show_pieces(session, plan.pieces, f"{said.target} ({count(plan.partitions, 'partition')})")
            return 0
        options = RekeyOptions(**_copying(session, job, "rekey"), key=said.key)
        state, plan = begin_rekey(options, plan)
        if state.is_finished:
            return _was_done(session, said.target)
        with job.progress(plan.records, "sent", records=True) as progress:
            sent = run(job.cluster, options, plan, state, job.now_ms(), progress.advance)
        _tell_sent(session, sent)
    return 0


def compact(session: Session) -> int:
    with _job(session) as job:
        from rustlog.spark.jobs.copying import plan_copy

        said = session.options
        plan = plan_copy(job.source(), said.topic, said.target, said.partitions)
        where = said.target or said.parquet or said.delta
        if said.plan:
            _show_pieces(session, plan.pieces, where)
            return 0
        if said.target is None:
            return _compact_to_table(session, job, plan)
        return _compact_to_topic(session, job, plan)


def _compact_to_topic(session: Session, job: _Job, plan: CopyPlan) -> int:
    from rustlog.spark.jobs.compact import begin_compact, compact_to_topic
    from rustlog.spark.jobs.copying import CopyOptions

    options = CopyOptions(**_copying(session, job, "compact"))
    state, plan = begin_compact(options, plan)
    if state.is_finished:
        return _was_done(session, options.target)
    with job.progress(None, "sent", records=True) as progress:
        sent = compact_to_topic(job.cluster, options, plan, state, job.now_ms(), progress.advance)
    _tell_sent(session, sent)
    return 0


def _compact_to_table(session: Session, job: _Job, plan: CopyPlan) -> int:
    from rustlog.environment.files import RealFiles
    from rustlog.spark.jobs.compact import compact_to_table
    from rustlog.spark.jobs.tables import TableOptions, check_table

    said = session.options
    options = TableOptions(
        path=said.parquet or said.delta,
        kind="parquet" if said.parquet else "delta",
        run=token_hex(8),
        now_ms=job.now_ms(),
        overwrites=said.overwrite,
    )
    check_table(RealFiles(), options)
    with job.progress(None, "written", records=True):
        written = compact_to_table(job.cluster, plan, options)
    session.tell(
        f"{count(written.records, 'key')} in {count(written.files, 'file')}, {human_size(written.size)}\n",
        {"table": options.path, "records": written.records, "files": written.files, "bytes": written.size},
    )
    return 0


def _copying(session: Session, job: _Job, name: str) -> dict[str, Any]:
    said = session.options
    return {
        "topic": said.topic,
        "target": said.target,
        "settings": job.settings(),
        "state": job.state(name, said.topic, said.target),
        "partitions": said.partitions,
        "codec": job.codec(),
        "appends": said.append,
        "config": dict(said.set),
    }


def _was_done(session: Session, target: str) -> int:
    session.tell(
        f"{target}: everything is there, nothing was sent\n", {"partitions": [], "records": 0, "sent": 0}
    )
    return 0


def _tell_sent(session: Session, sent: Sequence[Delivered]) -> None:
    sent = sorted(sent, key=lambda each: (each.topic, each.partition))
    titles = ("TOPIC", "PARTITION", "RECORDS", "SENT NOW")
    rows = [(each.topic, each.partition, each.records, each.sent) for each in sent]
    now, size = sum(each.sent for each in sent), sum(each.sent_bytes for each in sent)
    session.tell(
        table(titles, rows) + f"{count(now, 'record')} sent, {human_size(size)}\n",
        {
            "partitions": [
                dict(zip(("topic", "partition", "records", "sent"), row, strict=True)) for row in rows
            ],
            "records": sum(each.records for each in sent),
            "sent": now,
            "bytes": size,
        },
    )


# -- plans -----------------------------------------------------------------------------


def _show_plan(session: Session, planned: tuple[ArchivePlan, str]) -> None:
    plan, target = planned
    commits = count(len(plan.rounds), "commit")
    _show_pieces(session, plan.pieces, f"{target}, in {commits}")


def _show_pieces(session: Session, pieces: Sequence[Piece], target: str) -> None:
    found: dict[tuple[str, int], list[Piece]] = {}
    for piece in pieces:
        found.setdefault((piece.topic, piece.partition), []).append(piece)
    rows = [
        (topic, partition, min(each.start for each in own), max(each.end for each in own),
         sum(each.size for each in own), len(own))
        for (topic, partition), own in sorted(found.items())
    ]  # fmt: skip
    titles = ("TOPIC", "PARTITION", "FROM", "TO", "BYTES", "TASKS")
    size, tasks = sum(row[4] for row in rows), sum(row[5] for row in rows)
    session.tell(
        table(titles, rows) + f"about {human_size(size)} in {count(tasks, 'task')}, to {target}\n",
        {
            "ranges": [dict(zip((title.lower() for title in titles), row, strict=True)) for row in rows],
            "bytes": size,
            "tasks": tasks,
            "target": target,
        },
    )


def _show_replay(session: Session, plan: ReplayPlan) -> None:
    titles = ("TOPIC", "PARTITION", "TARGET", "RECORDS", "CHUNKS")
    rows = [
        (each.topic, each.partition, each.target, each.records, len(each.chunks)) for each in plan.sources
    ]
    session.tell(
        table(titles, rows)
        + f"{count(plan.records, 'record')} of {human_size(plan.size)} in {count(len(rows), 'task')}\n",
        {
            "partitions": [dict(zip((title.lower() for title in titles), row, strict=True)) for row in rows],
            "records": plan.records,
            "bytes": plan.size,
            "tasks": len(rows),
        },
    )


# -- what all have in common -----------------------------------------------------------


class _Job:
    """
    One run of a job.

    @ivar interrupted: what to say when somebody interrupts it.
    """

    def __init__(self, session: Session) -> None:
        from rustlog.environment.clocks import SystemWallClock
        from rustlog.spark.jobs.running import Cluster

        self._session = session
        self._settings: ClientSettings | None = None
        self.interrupted = _GO_ON
        self.now_ms = SystemWallClock().now_ms
        self.cluster: Cluster = Cluster(self._start)

    def _start(self) -> Any:
        from rustlog.spark.session import open_session

        said: Namespace = self._session.options
        starting = self._session.progress(lambda done: "starting Spark")
        with_line = not said.json
        if with_line:
            starting.show()
        try:
            return open_session(said.master, dict(said.conf), level="off")
        finally:
            starting.clear()

    def stop(self) -> None:
        if self.cluster.is_started:
            self.cluster.session.stop()

    def settings(self, *, knocks: bool = True) -> ClientSettings:
        """
        How to reach the broker.

        @param knocks: see whether it is there, the first time.
        """
        if self._settings is None:
            from rustlog.spark.settings import ClientSettings

            said = self._session.options
            where = said.kafka or self._session.console.variables.get(KAFKA_VARIABLE) or DEFAULT_KAFKA
            more = {f"kafka.{name}": value for name, value in said.kafka_settings}
            self._settings = ClientSettings.from_options({**more, "kafka.bootstrap.servers": where})
            if knocks:
                _knock(self._settings)
        return self._settings

    def source(self) -> Source:
        """Where records come from."""
        from rustlog.spark.jobs.sources import BrokerSource, DirectorySource

        directory = self._session.options.data_dir
        return BrokerSource(self.settings()) if directory is None else DirectorySource(directory)

    def codec(self) -> Any:
        from rustlog.log.codecs import Codec

        return Codec[self._session.options.codec.upper()]

    def state(self, *parts: str) -> str:
        """Where a job remembers who it is: the same for the same request."""
        if self._session.options.state is not None:
            return str(self._session.options.state)
        variables = self._session.console.variables
        base = variables.get("XDG_STATE_HOME") or f"{variables.get('HOME', '.')}/.local/state"
        name = sha256("\0".join((str(self.settings().bootstrap), *parts)).encode()).hexdigest()[:16]
        return f"{base}/rustlog/{parts[0]}-{name}.json"

    def planned(self, plan: Any, target: str) -> Any:
        """A plan, given what an archive has already; it need not exist."""
        from pathlib import PurePath

        from rustlog.environment.files import RealFiles
        from rustlog.spark.jobs.archives import is_archive, open_archive

        files, root = RealFiles(), PurePath(target)
        last = open_archive(files, root).last if is_archive(files, root) else None
        return plan(last.next_offsets if last else {}), target

    @contextmanager
    def progress(self, total: int | None, done_word: str, *, records: bool = False) -> Iterator[Progress]:
        """A line that tells how far it is, unless nobody looks or JSON is wanted."""
        text = (lambda number: count(number, "record")) if records else human_size
        of = "" if total is None else f" of {text(total)}"
        line = self._session.progress(lambda done: f"{text(done)}{of} {done_word}")
        if self._session.options.json:
            line = Progress(None, self._session.console.pace.monotonic, str)
        try:
            yield line
        finally:
            line.clear()


def _knock(settings: ClientSettings) -> None:
    """See whether there is a broker at all: a job waits for one that restarts, not for one that does not."""
    from attrs import evolve

    from rustlog.spark.errors import GaveUp
    from rustlog.spark.kafka import KafkaClient

    patience = min(settings.deadline_seconds, _KNOCK_SECONDS)
    try:
        with KafkaClient(evolve(settings, deadline_seconds=patience)) as client:
            client.topics()
    except GaveUp as error:
        hint = "is that the broker's Kafka listener? Name it with --bootstrap HOST:PORT"
        raise CommandFailed(f"{error.last}; {hint}", UNREACHABLE) from None


@contextmanager
def _job(session: Session, status: int = 1) -> Iterator[_Job]:
    """
    Runs a job: what it needs is there, what goes wrong is one line, and Spark does not outlive it.

    @param status: with which the tool ends if it goes wrong.
    """
    for module in ("pyarrow", "pyspark"):
        if find_spec(module) is None:
            raise CommandFailed("this needs Spark: pip install 'rustlog[spark]'", status)
    from rustlog.spark.errors import BadOption, ConnectionFailed, ConnectionLost, GaveUp, PipelineError

    job = _Job(session)
    try:
        yield job
    except KeyboardInterrupt:
        session.remark(f"rustlog: interrupted; {job.interrupted}")
        raise
    except BadOption as error:
        raise CommandFailed(str(error), status=2) from None
    except (ConnectionFailed, ConnectionLost, GaveUp) as error:
        raise CommandFailed(f"{error}; {_GO_ON}", UNREACHABLE) from None
    except PipelineError as error:
        raise CommandFailed(str(error), status) from None
    finally:
        job.stop()
