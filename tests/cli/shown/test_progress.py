"""What a run shows: a bar on a terminal, a line per window elsewhere."""

import io
import json
import sys
from dataclasses import replace

import pytest

from logdriven_dagster.cli.commands.run import _find_only_job
from logdriven_dagster.cli.shown.progress import display, report, show_line
from logdriven_dagster.cli.shown.results import Tally
from logdriven_dagster.config import load_project
from logdriven_dagster.errors import AlreadyRunningError
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowRefused,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.model.attempts import Attempt, Claim, Counts, Owner, Trigger
from logdriven_dagster.model.quality import QualityReport, RuleResult
from logdriven_dagster.model.runs import Staged
from logdriven_dagster.model.windows import TimeWindow
from tests.builders import at, day


class Terminal(io.StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _attempt(window: TimeWindow) -> Attempt:
    owner = Owner("here", 1, 2)
    return Attempt(
        7,
        Claim(
            *("ods.t", window, 1440, "time_window", "p", Trigger.PENDING, owner, at("2022-02-01")),
            steps=("load",),
        ),
        1,
        1,
    )


def test_a_line_states_what_an_upsert_inserted_and_updated(capsys):
    with display("text", lambda: 1) as show:
        show(_succeeded(1, Counts(10, 9, 9, 0, inserted=2, updated=6)))
    assert "10 read, 9 written (2 inserted, 6 updated), 1.2 s" in capsys.readouterr().out


def _succeeded(n: int, *counts: Counts) -> WindowSucceeded:
    steps = tuple(Staged(f"s{i}", c, "csv", "iceberg", ()) for i, c in enumerate(counts))
    return WindowSucceeded(_attempt(day(n)), steps, (), 1.25)


EVENTS: list[WindowEvent] = [
    WindowStarted(_attempt(day(1))),
    _succeeded(1, Counts(1000, 900, 900, 0)),
    WindowStarted(_attempt(day(2))),
    WindowFailed(_attempt(day(2)), "load", "no [file] x\nmore", 0.5),
    WindowSkipped("ods.t", day(3), "[2022-01-02, 2022-01-03) failed"),
    WindowRefused("ods.u", day(1), AlreadyRunningError("ods.u is running in job 3")),
]


def _shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stdout", stream)
    tally = Tally()
    with display("text", lambda: 3) as show:
        for event in EVENTS:
            tally.add(event)
            show(event)
    report(tally, "text")
    return stream.getvalue()


def test_elsewhere_every_window_is_a_line(monkeypatch):
    lines = _shown(io.StringIO(), monkeypatch).splitlines()
    assert lines[0] == "SUCCESS  ods.t [2022-01-01, 2022-01-02)  1,000 read, 900 written, 1.2 s"
    assert lines[1] == "FAILURE  ods.t [2022-01-02, 2022-01-03)  step load: no [file] x"
    assert "ELSEWHERE  ods.u [2022-01-01, 2022-01-02)  ods.u is running in job 3" in lines


def test_a_version_that_differs_from_the_file_is_shown_in_the_line(monkeypatch):
    claim = replace(_attempt(day(1)).claim, other_version="version 1 of the registry")
    attempt = replace(_attempt(day(1)), claim=claim)
    monkeypatch.setattr(sys, "stdout", stream := io.StringIO())
    show_line(replace(_succeeded(1, Counts(1, 1)), attempt=attempt))
    show_line(WindowFailed(attempt, "load", "no file", 0.5))
    done, failed = stream.getvalue().splitlines()
    assert done.endswith("1 read, 1 written, 1.2 s; ran version 1 of the registry")
    assert failed.endswith("  ran version 1 of the registry; step load: no file")


def test_a_line_shows_an_error_in_brief_and_the_end_where_the_rest_is(monkeypatch):
    whole = "unknown column b\n\nAnalysisException: [UNRESOLVED_COLUMN] and so on"
    failed = WindowFailed(_attempt(day(2)), "load", whole, 0.5)
    monkeypatch.setattr(f"{__name__}.EVENTS", [failed])
    lines = _shown(io.StringIO(), monkeypatch).splitlines()
    told = "FAILURE  ods.t [2022-01-02, 2022-01-03)  step load: unknown column b"
    assert lines[0] == told
    assert lines[-1] == "Show the whole errors with: logdriven log ods.t --full"
    assert "AnalysisException" not in "".join(lines)


def test_a_terminal_shows_a_bar_and_what_went_wrong(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    shown = _shown(Terminal(), monkeypatch)
    assert "3/3" in shown
    assert "step load: no [file] x" in shown
    assert "1,000 read, 900 written" not in shown


def test_the_summary_counts_every_table_and_the_whole(monkeypatch):
    rows = [line.split() for line in _shown(io.StringIO(), monkeypatch).splitlines()]
    assert ["ods.t", "1", "1", "1", "1,000", "900", "1.8", "s"] in rows
    assert ["ods.u", "–", "–", "–", "–", "–", "0.0", "s"] in rows
    assert any(row[:6] == ["2", "tables", "1", "1", "1", "1,000"] for row in rows)


def test_rows_that_rules_reject_are_in_the_line_the_summary_and_the_json(capsys):
    rules = (
        RuleResult("amounts_are_positive", None, "error", blocking=False, count=1),
        RuleResult("not_null", "at", "error", blocking=False, count=0),
        RuleResult("recent", None, "warn", blocking=False, count=3),
    )
    counts = Counts(50, 49, 49, 1)
    staged = Staged("load", counts, "csv", "iceberg", (), quality=QualityReport(50, 1, rules))
    event = WindowSucceeded(_attempt(day(1)), (staged,), (), 0.5)
    tally = Tally()
    tally.add(event)
    show_line(event)
    report(tally, "text")
    shown = capsys.readouterr().out
    assert "50 read, 49 written, 0.5 s, 1 rejected by amounts_are_positive\n" in shown
    assert "rows rejected" in shown
    assert shown.endswith("Show the first rejected rows with: logdriven quality ods.t\n")
    report(tally, "json")
    summary = json.loads(capsys.readouterr().out)
    assert summary["rows_rejected"] == 1
    assert summary["windows"][0]["rejected_by"] == ["amounts_are_positive"]


def test_rows_of_all_steps_are_added_and_unknown_ones_are_no_zero():
    tally = Tally()
    tally.add(_succeeded(1, Counts(10, None), Counts(None, 7), Counts(5, 3)))
    tally.add(_succeeded(2, Counts(None, None)))
    assert [(r.rows_read, r.rows_written) for r in tally.results] == [(15, 10), (None, None)]


def test_an_interrupted_window_is_named_on_stderr(capsys):
    tally = Tally()
    tally.add(WindowStarted(_attempt(day(1))))
    report(tally, "text")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Error: interrupted; ods.t [2022-01-01, 2022-01-02) is logged as")


def test_only_a_job_that_is_run_alone_keeps_to_its_limit(shop):
    (shop / "jobs").mkdir()
    (shop / "jobs/daily.yaml").write_text("job: daily\ntables: [ods.orders]\nmax_windows: 5\n")
    project = load_project(shop)
    assert _find_only_job(project, ["daily"]).max_windows == 5
    assert _find_only_job(project, ["daily", "ods.customers"]) is None
    assert _find_only_job(project, None) is None
