"""Composition of messages from notices and the run log."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Connection

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.notifications import freshness_texts, outdated
from logdriven_dagster.execution.notifications import wording as shown
from logdriven_dagster.execution.notifications.messages import (
    MOST_FACTS,
    WORDS,
    Fact,
    Message,
    run_link,
)
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.observed import notifications
from logdriven_dagster.runlog.observed.notifications import Notice, Parcel

_ERROR_LENGTH = 1000
_MOST_BLOCKED = 20


def compose(conn: Connection, project: Project, parcel: Parcel) -> Message:
    """Compose the message for a parcel's notices, failures first, with details from the log."""
    order = list(WORDS)
    notices = sorted(parcel.notices, key=lambda notice: (order.index(notice.event), notice.job_id))
    shown = notices[:MOST_FACTS]
    wanted = [notice.job_id for notice in shown if notice.subject_type == "table"]
    attempts = {row["job_id"]: row for row in history.list_attempts_by_id(conn, wanted)}
    runs = [notice.job_id for notice in shown if notice.subject_type == "job"]
    of_jobs = notifications.read_job_runs(conn, runs) if runs else {}
    logs = freshness_texts.logs_of(conn, project, shown)

    def build_fact(notice: Notice) -> Fact:
        match notice.subject_type:
            case "table":
                return _fact(project, notice, attempts.get(notice.job_id))
            case "job":
                return _fact_of_job(project, notice, of_jobs.get(notice.job_id))
            case "freshness":
                window, note = freshness_texts.words(project, notice, logs.get(notice.subject))
                fact = Fact(notice.event, "freshness", notice.subject, window, notice.job_id)
                return replace(fact, note=note)
            case "source":
                fact = Fact(notice.event, "source", notice.subject, "", notice.job_id)
                return replace(fact, note=outdated.describe(conn, project, notice.subject))

    facts = tuple(map(build_fact, shown))
    title = _title(project, notices, facts)
    return Message(project.name, title, parcel.digest, facts, len(notices) - len(shown))


def _title(project: Project, notices: list[Notice], facts: tuple[Fact, ...]) -> str:
    if len(facts) == 1:
        return f"[{project.name}] {facts[0].heading}"
    counted = []
    for event, word in WORDS.items():
        subjects = {notice.subject for notice in notices if notice.event == event}
        number = sum(notice.event == event for notice in notices)
        if number:
            whose = f" of {subjects.pop()}" if len(subjects) == 1 else ""
            counted.append(f"{number:,} {word}{whose}")
    return f"[{project.name}] {', '.join(counted)}"


def _fact(project: Project, notice: Notice, row: shown.Row | None) -> Fact:
    fact = Fact(notice.event, notice.subject_type, notice.subject, "", notice.job_id)
    if row is None:  # archived, or removed by an operator
        return fact
    step = shown.find_failed_step(row)
    return replace(
        fact,
        window=shown.window(row),
        attempt_number=row["attempt_number"],
        started=shown.clock(row["job_start_time"], project.zone),
        seconds=shown.seconds(row),
        read=shown.total(row, "source_count"),
        written=shown.total(row, "success_count"),
        step=step["step_id"] if step else "",
        error=_cut(in_brief(shown.error(row))),
        link=run_link(project, row["dagster_run_id"]),
    )


def _fact_of_job(project: Project, notice: Notice, row: Mapping[str, Any] | None) -> Fact:
    fact = Fact(notice.event, notice.subject_type, notice.subject, "", notice.job_id)
    if row is None:
        return fact
    times = {"job_start_time": row["begin_time"], "job_end_time": row["end_time"]}
    return replace(
        fact,
        started=shown.clock(row["begin_time"], project.zone),
        seconds=shown.seconds(times),
        error=_cut(in_brief(redact(row["error"] or ""))),
        blocked=tuple(map(_cut, redact(row["blocked"] or "").splitlines()[:_MOST_BLOCKED])),
        link=run_link(project, row["dagster_run_id"]),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _ERROR_LENGTH else f"{text[:_ERROR_LENGTH]} …"
