"""`job run`, `job list` and `job status`: jobs, their runs and their steps."""

import sys
from collections.abc import Mapping
from contextlib import closing, contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from logdriven_dagster.cli.commands.run import TerminatedError, handle_termination
from logdriven_dagster.cli.former_options import Command
from logdriven_dagster.cli.options import (
    JsonOption,
    LogFormat,
    LogFormatOption,
    MaxParallelOption,
    NowOption,
    OverrideOption,
    ProjectOption,
    RetryVersionOption,
    choose_output,
    open_in_force,
    open_to_run,
    parse_overrides,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from logdriven_dagster.cli.shown.progress import Output
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.execution.jobs.events import JobEvent

app = typer.Typer(no_args_is_help=True, help="Run jobs and show the results of their runs.")


class JobType(str, Enum):
    """The types of jobs that `--type` accepts."""

    STANDARD = "standard"
    MAINTENANCE = "maintenance"


@app.command(cls=Command)
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job.")],
    *,
    kind: Annotated[
        JobType | None, typer.Option("--type", help="Require this type of the job.")
    ] = None,
    from_start: Annotated[
        bool,
        typer.Option(
            "--from-start",
            help="Maintenance: start with the first step, not with the step that stopped.",
        ),
    ] = False,
    from_step: Annotated[
        str | None,
        typer.Option("--from-step", metavar="STEP", help="Maintenance: start with this step."),
    ] = None,
    max_windows: Annotated[
        int | None, typer.Option(min=1, help="Standard: the maximum number of windows.")
    ] = None,
    max_parallel: MaxParallelOption = None,
    override: OverrideOption = None,
    retry_version: RetryVersionOption = None,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a job once; a maintenance job continues at the step that failed."""
    from logdriven_dagster.execution.arguments import JobArguments
    from logdriven_dagster.execution.jobs.standard import run_job

    output = choose_output(as_json, log_format)
    arguments = JobArguments(
        kind.value if kind else None,
        overrides=parse_overrides(override),
        max_windows=max_windows,
        max_parallel=max_parallel,
        from_start=from_start,
        from_step=from_step,
        retry_version=None if retry_version is None else retry_version.value,
    )
    runner, clock = open_to_run("job run", project, now)
    _watch(name, run_job(runner, name, clock, arguments), output)


def _watch(name: str, events: "Generator[JobEvent]", output: "Output") -> None:
    """Run a job and show its progress; exit with 1 on failure, 130 or 143 if interrupted."""
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.cli.shown.jobs import JobTally

    tally = JobTally(name)
    interrupted = 0
    try:
        with handle_termination(), _show_events(output) as show, closing(events):
            for event in events:
                tally.add(event)
                show(event)
    except TerminatedError:
        interrupted = 143
    except KeyboardInterrupt:
        interrupted = 130
    if output == "json":
        rendering.print_json(tally.as_json())
    elif output == "text":
        rendering.print_line(tally.format_sentence())
    elif tally.exit_code and not interrupted:
        rendering.print_error(tally.format_sentence())
    if interrupted:
        rendering.print_error(f"interrupted; run {tally.job_run_id} is logged as DISCARDED")
    raise typer.Exit(interrupted or tally.exit_code)


@contextmanager
def _show_events(output: "Output") -> "Iterator[Callable[[JobEvent], None]]":
    """Yield a function that shows each event, with standard output reserved for `output`."""
    from logdriven_dagster.cli.shown import progress

    if output == "text":
        yield _show
    else:
        with progress.display(output, lambda: 0) as show:
            yield cast("Callable[[JobEvent], None]", show)


def _show(event: "JobEvent") -> None:
    from logdriven_dagster.cli.shown import progress, rendering
    from logdriven_dagster.errors import in_brief
    from logdriven_dagster.execution.jobs.events import (
        JobEnded,
        JobStarted,
        StepEnded,
        StepStarted,
        StepTriedAgain,
    )

    match event:
        case JobStarted(run=run, notes=notes):
            rendering.print_line(f"run {run.job_run_id} of {run.job}")
            for note in notes:
                rendering.print_line(rendering.format_plain(f"warning: {note}", "yellow"))
        case StepTriedAgain(step=step, error=error, error_count=number):
            rendering.print_line(
                rendering.format_plain(
                    f"try {number} of {step.step} failed: {in_brief(error)}", "yellow"
                )
            )
        case StepEnded(step=step, result=result, seconds=seconds):
            line = rendering.format_state(result.status.value)
            message = in_brief(result.error or "") or result.output
            text = f"  {step.exec_order} {step.step}  {result.row_count:,} rows, "
            text += rendering.format_seconds(seconds) + (f"\n{message}" if message else "")
            rendering.print_line(line.append_text(rendering.format_plain(text)))
        case StepStarted() | JobEnded():
            return
        case _:
            progress.show_line(event)
    sys.stdout.flush()


@app.command("list")
def list_jobs(project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """List the jobs, their settings and the results of their latest runs."""
    from logdriven_dagster.cli.shown import rendering

    registered = open_in_force(project)
    loaded = registered.project
    latest = _read_latest(loaded, registered.run_log)
    rows = [_build_job_row(loaded, name, latest.get(name)) for name in sorted(loaded.jobs)]
    if as_json:
        rendering.print_json_list(rows)
        return
    if not rows:
        rendering.print_line("No jobs. Add a file to jobs/ to define one.")
        return
    grid = rendering.make_table(
        "job", "type", "enabled", "release", "schedule", "#parts", "latest run"
    )
    for row in rows:
        parts = row["tables"] if row["type"] == "standard" else row["steps"]
        grid.add_row(
            row["job"],
            row["type"],
            "yes" if row["enabled"] else rendering.format_plain("no", "yellow"),
            row["release_state"],
            row["schedule"] or "–",
            str(len(parts)),
            rendering.format_state(row["status"]) if row["status"] else "–",
        )
    rendering.make_console().print(grid)


@app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The job; default: all jobs.")
    ] = None,
    *,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the latest run of each job; for one job, its steps or the windows that it ran."""
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.runlog.jobs import history as job_history

    registered = open_in_force(project)
    loaded, run_log = registered.project, registered.run_log
    if name is not None:
        loaded.job(name)
    latest = _read_latest(loaded, run_log)
    chosen = [latest[key] for key in sorted(latest) if name in (None, key)]
    if name is not None and chosen:
        number = chosen[0]["job_run_id"]
        chosen[0]["attempts"] = run_log.ask(lambda c: job_history.list_attempts_of_run(c, number))
    if as_json:
        rendering.print_json_list(chosen)
    elif not chosen:
        rendering.print_line(f"{name or 'No job'} has not run yet.")
    else:
        _print_runs(chosen, loaded)


def _print_runs(runs: list[dict[str, Any]], project: "Project") -> None:
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.notifications.wording import clock, compute_elapsed

    grid = rendering.make_table("#run", "job · part", "status", "began", "#time", "#rows", "error")
    for run in runs:
        error = (
            "its lease has expired; the next run takes it over" if run["expired"] else run["error"]
        )
        grid.add_row(
            str(run["job_run_id"]),
            run["job_name"],
            rendering.format_state(run["status"]),
            clock(run["begin_time"], project.zone),
            rendering.format_seconds(compute_elapsed(run["begin_time"], run["end_time"])),
            "",
            rendering.format_plain((error or "").splitlines()[0] if error else "", "red"),
            style="bold",
        )
        for line in (run["blocked"] or "").splitlines():
            message = rendering.format_plain(line, "yellow")
            grid.add_row("", "  blocked", "", "", "", "", message, style="dim")
        for step in run["steps"]:
            grid.add_row(
                *_format_part(f"{step['exec_order']} {step['step_id']}", step), style="dim"
            )
        for attempt in run.get("attempts", ()):
            part = f"{attempt['job_name']} {attempt['data_range_start']}"
            grid.add_row(*_format_part(part, _convert_attempt(attempt)), style="dim")
    rendering.make_console().print(grid)


def _format_part(label: str, row: Mapping[str, Any]) -> list[Any]:
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.execution.notifications.wording import compute_elapsed

    return [
        "",
        f"  {label}",
        rendering.format_state(row["status"]),
        "",
        rendering.format_seconds(compute_elapsed(row["begin_time"], row["end_time"])),
        rendering.format_number(row["row_count"]),
        rendering.format_plain((row["error"] or "").split("\n")[0], "red"),
    ]


def _convert_attempt(row: Mapping[str, Any]) -> dict[str, Any]:
    errors = [step["error"] for step in row["steps"] if step["error"]]
    return {
        "status": row["status"],
        "begin_time": row["job_start_time"],
        "end_time": row["job_end_time"],
        "row_count": sum(step["success_count"] or 0 for step in row["steps"]),
        "error": errors[0] if errors else None,
    }


def _read_latest(project: "Project", run_log: Any) -> dict[str, dict[str, Any]]:
    from logdriven_dagster.model.definitions import Kind, build_code
    from logdriven_dagster.runlog.jobs import history as job_history

    codes = [build_code(project.name, Kind.JOB, name) for name in project.jobs]
    found: dict[str, dict[str, Any]] = run_log.ask(lambda c: job_history.read_latest_runs(c, codes))
    return found


def _build_job_row(
    project: "Project", name: str, latest: Mapping[str, Any] | None
) -> dict[str, Any]:
    from logdriven_dagster.config.models.jobs import StandardJob

    job = project.jobs[name]
    tables = job.tables if isinstance(job, StandardJob) else ()
    steps = () if isinstance(job, StandardJob) else sorted(job.steps, key=lambda s: s.exec_order)
    return {
        "job": name,
        "type": job.type,
        "description": job.description,
        "enabled": job.enabled,
        "release_state": job.release_state,
        "priority": job.priority,
        "schedule": job.schedule,
        "tables": list(tables),
        "steps": [step.step for step in steps if step.enabled],
        "job_run_id": latest["job_run_id"] if latest else None,
        "status": latest["status"] if latest else None,
    }
