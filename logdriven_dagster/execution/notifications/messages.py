"""Messages to recipients, as mail, chat, JSON and plain text."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from logdriven_dagster.config.project import Project
from logdriven_dagster.execution.notifications import wording as shown
from logdriven_dagster.runlog.observed.notifications import Event

if TYPE_CHECKING:
    from jinja2 import Environment

WORDS: dict[Event, str] = {
    "failure": "failed",
    "late": "late",
    "warning": "nearly late",
    "outdated": "out of date",
    "recovery": "recovered",
    "success": "succeeded",
}
_COLOURS: dict[Event, str] = {
    "failure": "#c2410c",
    "late": "#c2410c",
    "warning": "#b45309",
    "outdated": "#b45309",
    "recovery": "#0f766e",
    "success": "#64748b",
}
_MARKS: dict[Event, str] = {
    "failure": ":red_circle:",
    "late": ":red_circle:",
    "warning": ":large_yellow_circle:",
    "outdated": ":large_yellow_circle:",
    "recovery": ":large_green_circle:",
    "success": "",
}
MOST_FACTS = 50
"""The maximum number of facts in a message, which has the total number."""
_SLACK_LENGTH = 2900
"""Slack accepts 3,000 characters in a block."""


@dataclass(frozen=True, slots=True)
class Fact:
    """An attempt, a job run, or a change of a table's state, as an entry of a message."""

    event: Event
    subject_type: str
    subject: str
    window: str
    """The range of the attempt; empty for a job."""
    job_id: int
    attempt_number: int | None = None
    started: str = ""
    """On the project's clock."""
    seconds: float | None = None
    read: int | None = None
    written: int | None = None
    step: str = ""
    error: str = ""
    blocked: tuple[str, ...] = ()
    """The tables that block a job, with reasons."""
    link: str | None = None
    """The URL of the Dagster run."""
    note: str = ""
    """The deadline of a window and its state, or the changed files of a source."""

    @property
    def outcome(self) -> str:
        """The event in one or two words."""
        is_fresh = self.subject_type == "freshness" and self.event == "recovery"
        return "fresh again" if is_fresh else WORDS[self.event]

    @property
    def heading(self) -> str:
        return " ".join(filter(None, [self.subject, self.window, self.outcome]))

    @property
    def details(self) -> str:
        """Attempt, duration and counts, on one line."""
        if self.subject_type in ("freshness", "source"):
            return self.note
        again = f"attempt {self.attempt_number}" if (self.attempt_number or 1) > 1 else ""
        rows = "" if self.event == "failure" or self.written is None else f"{self.written:,} rows"
        what = "run" if self.subject_type == "job" else "job"
        parts = [f"{what} {self.job_id}", again, shown.duration(self.seconds), rows, self.started]
        return " · ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Attached:
    """A text file attached to a mail."""

    name: str
    subtype: str
    """`csv` or `html`."""
    content: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """One message to one recipient: all events of a run, failures first."""

    project: str
    title: str
    digest: str
    """The identifier by which a repeated message is recognized."""
    facts: tuple[Fact, ...] = ()
    left_out: int = 0
    """The number of further facts."""
    text: str = ""
    """The text in addition to the facts."""
    files: tuple[Attached, ...] = ()

    @property
    def severity(self) -> Literal["failure", "warning", "success", "info"]:
        events = {fact.event for fact in self.facts}
        if not events:
            return "info"
        if events & {"failure", "late"}:
            return "failure"
        return "warning" if events & {"warning", "outdated"} else "success"

    def as_text(self) -> str:
        """Render the message as plain text."""
        return "\n\n".join([*filter(None, [self.text]), *map(_as_text, self.facts), *self._rest()])

    def as_html(self) -> str:
        """Render the message as HTML for mail programs."""
        page = templates("logdriven_dagster.execution").get_template("message.html.j2")
        return page.render(message=self, colours=_COLOURS)

    def as_json(self) -> dict[str, Any]:
        """Serialize the message for programs: `events` are the facts."""
        events = [{**asdict(fact), "text": fact.heading} for fact in self.facts]
        head = {"id": self.digest, "project": self.project, "title": self.title}
        return head | {"text": self.as_text(), "events": events, "left_out": self.left_out}

    def as_slack(self) -> dict[str, Any]:
        """Serialize the message for incoming webhooks of Slack and compatible chats."""
        parts = [*filter(None, [self.text]), *map(_in_slack, self.facts), *self._rest()]
        blocks = [{"type": "header", "text": {"type": "plain_text", "text": self.title[:150]}}]
        blocks += [
            {"type": "section", "text": {"type": "mrkdwn", "text": part[:_SLACK_LENGTH]}}
            for part in parts[: MOST_FACTS - 2]
        ]
        return {"text": self.title, "blocks": blocks}

    def _rest(self) -> Iterator[str]:
        if self.left_out:
            yield f"… and {self.left_out:,} more: `logdriven log` and `logdriven report` show them."


def run_link(project: Project, dagster_run_id: str | None) -> str | None:
    """Return the URL of a run in Dagster's web interface; None if its address is not configured."""
    base = project.config.ui_url
    return f"{base.rstrip('/')}/runs/{dagster_run_id}" if base and dagster_run_id else None


def _as_text(fact: Fact) -> str:
    lines = [fact.heading, f"  {fact.details}"]
    if fact.error:
        lines += [f"  step {fact.step}:" if fact.step else "  error:"]
        lines += [f"    {line}" for line in fact.error.splitlines()]
    lines += [f"  blocked: {line}" for line in fact.blocked]
    return "\n".join([*lines, *([f"  {fact.link}"] if fact.link else [])])


def _in_slack(fact: Fact) -> str:
    heading = f"{_MARKS[fact.event]} *{_escape(fact.heading)}*".strip()
    lines = [heading, _escape(fact.details)]
    if fact.error:
        error = _escape(fact.error).replace("```", "'''")
        lines += [f"```{error}```"]
    lines += [f"blocked: {_escape(line)}" for line in fact.blocked]
    return "\n".join([*lines, *([f"<{fact.link}|Dagster run>"] if fact.link else [])])


def _escape(text: str) -> str:
    """Escape a text for Slack, so that it becomes no link and mentions no user."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@cache
def templates(package: str) -> "Environment":
    """Return the templates in the folder `templates` of a package; they escape every text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
