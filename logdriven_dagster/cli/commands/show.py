"""`show` and `compare`: the rows of a table, and their differences from other rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from logdriven_dagster.cli.options import (
    JsonOption,
    NowOption,
    ProjectOption,
    RangeEndOption,
    RangeStartOption,
    WindowOption,
    find_window,
    open_in_force,
    parse_range,
    parse_time,
    read_data_clock,
)

if TYPE_CHECKING:
    from datetime import datetime

    from logdriven_dagster.config.models.tables import TableConfig
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.engine.comparison.values import Rule, Side, TableRows
    from logdriven_dagster.execution.inspection.comparing import Before, ReportedComparison, State
    from logdriven_dagster.execution.runner import Runner
    from logdriven_dagster.model.logs import WindowCount

SqlOption = Annotated[
    str | None,
    typer.Option("--sql", metavar="QUERY", help="Show the result of a query that reads the table."),
]
CountsOption = Annotated[
    bool,
    typer.Option(
        "--counts", help="Draw the number of rows that each window wrote, from the run log."
    ),
]


def show(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    window: WindowOption = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of rows to show.")] = 20,
    sql: SqlOption = None,
    counts: CountsOption = False,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show rows of a table as its readers see them, without Spark if possible.

    With --counts: the number of rows that each of its newest windows wrote.
    """
    from logdriven_dagster.cli.shown import rows
    from logdriven_dagster.execution.opening import open_runner

    if counts and (window or sql):
        raise typer.BadParameter("--counts cannot be combined with --window or --sql")
    registered = open_in_force(project)
    runner = open_runner(registered.project, run_log=registered.run_log)
    table = runner.project.table(table).table
    if counts:
        found = _read_counts(runner, table, read_data_clock(runner.project, now), limit)
        rows.print_counts(table, found, as_json=as_json)
    else:
        _print_rows(runner, table, window, sql, limit=limit, as_json=as_json)


def _print_rows(
    runner: "Runner", table: str, window: str | None, sql: str | None, *, limit: int, as_json: bool
) -> None:
    from logdriven_dagster.cli.shown import rendering, rows
    from logdriven_dagster.engine.looking import look

    project = runner.project
    chosen = None if window is None else find_window(runner, table, window)
    most = limit if as_json else limit + 1  # one more shows that there are more
    with rendering.redirect_output():  # Spark may start, and print
        read = look(project, lambda: runner.engine, table, window=chosen, sql=sql, limit=most)
    if as_json:
        rows.print_rows_as_json(read, project.zone)
    else:
        rows.print_rows(read, project.zone, limit)


def _read_counts(runner: "Runner", table: str, now: "datetime", most: int) -> "list[WindowCount]":
    from logdriven_dagster.planning.pending import add_missing
    from logdriven_dagster.runlog.history.window_counts import read_window_counts

    config = runner.project.table(table)
    counts = runner.run_log.ask(lambda conn: read_window_counts(conn, config, most))
    return add_missing(config, runner.plan(now, [table]).tables[table].log, counts, now, most)


def compare(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    snapshot: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot",
            metavar="ID",
            help="Compare this snapshot (Iceberg) or version (Delta) with the current rows; if "
            "given twice, the two with each other.",
        ),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="restate|run|JOB",
            help="Compare the rows before the last restatement, the last run or an attempt of "
            "`logdriven log` with the current ones.",
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version",
            metavar="N",
            help="Compare the rows at the end of this version of the definition with the current "
            "ones.",
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="TIME", help="Compare the rows at this time."),
    ] = None,
    other: Annotated[
        str | None,
        typer.Option("--with", metavar="TABLE", help="Compare with this table of the project."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql", metavar="QUERY", help="Compare with a query on the database of --connection."
        ),
    ] = None,
    connection: Annotated[
        str | None, typer.Option("--connection", metavar="NAME", help="The connection of --sql.")
    ] = None,
    window: WindowOption = None,
    with_window: Annotated[
        str | None,
        typer.Option(
            "--with-window", metavar="START", help="Compare the window of --window with this one."
        ),
    ] = None,
    start: RangeStartOption = None,
    end: RangeEndOption = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="A,B",
            help="The columns that identify a row; default: the key of the target, the id of its "
            "quality rules, or the grouping of its query.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="A,B", help="Compare only the key and these columns."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="A,B", help="Leave out these columns."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0,
            help="The largest difference between equal values of FLOAT and DOUBLE columns; "
            "default: exact.",
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            min=0,
            help="The number of examples for each difference; default: 5, and 0 for --markdown "
            "and --json.",
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the result for a pull request.")
    ] = False,
    project: ProjectOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a table with an earlier state of it, another window, another table or a query.

    Exit codes: 0 no difference, 1 a difference, 2 not compared.
    """
    from logdriven_dagster.cli.shown import comparison as shown
    from logdriven_dagster.engine.comparison.values import Rule
    from logdriven_dagster.execution.opening import open_runner

    if as_json and markdown:
        raise typer.BadParameter("--json and --markdown exclude each other")
    limits, states = _Limits(window, start, end), _States(snapshot, before, version, as_of)
    others = _Others(other, sql, connection, with_window, states.second)
    _refuse_conflicts(limits, states, others)
    rule = Rule(
        key=_split_names(key),
        columns=_split_names(columns) or None,
        exclude=_split_names(exclude),
        tolerance=tolerance,
        examples=(0 if as_json or markdown else 5) if examples is None else examples,
    )
    registered = open_in_force(project)
    loaded = registered.project
    runner = open_runner(loaded, run_log=registered.run_log)
    rows = limits.choose_rows(runner, table, now)
    right = others.choose_side(runner, rows)
    found = _compare(runner, rows, states.choose_state(loaded), right, rule)
    print_result = shown.print_comparison
    if as_json or markdown:
        print_result = (
            shown.print_comparison_as_json if as_json else shown.print_comparison_as_markdown
        )
    print_result(found)
    if not found.result.is_equal:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Limits:
    """The options that limit the rows of a table."""

    window: str | None
    start: str | None
    end: str | None

    def choose_rows(self, runner: "Runner", table: str, now: str | None) -> "TableRows":
        """Return the rows within the limits."""
        from logdriven_dagster.engine.comparison.values import TableRows
        from logdriven_dagster.errors import UsageError

        project, config = runner.project, runner.project.table(table)
        is_limited = any(value is not None for value in (self.window, self.start, self.end))
        if is_limited:
            _refuse_without_windows(config)
        if self.window is not None:
            return TableRows(config.table, find_window(runner, config.table, self.window))
        if is_limited and config.is_sliced:
            raise UsageError(
                f"{config.table} has numbered windows, not time windows; use --window instead of "
                "--from and --to"
            )
        clock = read_data_clock(project, now)
        return TableRows(
            config.table, parse_range(project, config.table, self.start, self.end, clock)
        )


@dataclass(frozen=True, slots=True)
class _States:
    """The options that name an earlier state of a table."""

    snapshots: Sequence[str] | None
    before: str | None
    version: int | None
    as_of: str | None

    @property
    def second(self) -> str | None:
        """The snapshot to compare with; None for another side."""
        return self.snapshots[1] if self.snapshots and len(self.snapshots) > 1 else None

    @property
    def given_options(self) -> list[str]:
        """The names of these options that have a value."""
        values = {
            "--snapshot": self.snapshots,
            "--before": self.before,
            "--version": self.version,
            "--as-of": self.as_of,
        }
        return [name for name, value in values.items() if value is not None]

    def choose_state(self, project: "Project") -> "State | None":
        """Return the state; None for the current one."""
        from logdriven_dagster.execution.inspection.comparing import State

        if self.snapshots:
            if len(self.snapshots) > 2:
                raise typer.BadParameter("must be given at most twice", param_hint="--snapshot")
            return State(self.snapshots[0])
        if self.version is not None:
            return State(version=self.version)
        if self.as_of is not None:
            return State(as_of=parse_time(project, self.as_of, "--as-of"))
        return None if self.before is None else State(before=_parse_before(self.before))


@dataclass(frozen=True, slots=True)
class _Others:
    """The options that name the other side."""

    table: str | None
    sql: str | None
    connection: str | None
    window: str | None
    snapshot: str | None

    @property
    def given_options(self) -> list[str]:
        """The names of these options that have a value."""
        values = {
            "--with": self.table,
            "--sql": self.sql,
            "--with-window": self.window,
            "a second --snapshot": self.snapshot,
        }
        return [name for name, value in values.items() if value is not None]

    def choose_side(self, runner: "Runner", rows: "TableRows") -> "Side | State":
        """Return the side to compare the rows with, by default their current state."""
        from logdriven_dagster.engine.comparison.values import QueryRows
        from logdriven_dagster.execution.inspection.comparing import State

        if self.sql is not None and self.connection is not None:
            return QueryRows(self.connection, self.sql.strip().rstrip(";"))
        if self.table is not None:
            config = runner.project.table(self.table)
            if rows.window is not None:
                _refuse_without_windows(config)
            return replace(rows, table=config.table)
        if self.window is not None:
            return replace(rows, window=find_window(runner, rows.table, self.window))
        return rows if self.snapshot is None else State(self.snapshot)


def _refuse_without_windows(config: "TableConfig") -> None:
    """Raise UsageError if a table has no rows of single windows."""
    from logdriven_dagster.errors import UsageError

    if config.output.write_mode.replaces_whole_table:
        raise UsageError(
            f"{config.table} is replaced completely, so it has no rows of single windows; "
            "leave out --window, --from and --to"
        )


def _parse_before(text: str) -> "Before":
    match text:
        case "restate" | "run":
            return text
        case _ if text.isdigit():
            return int(text)
        case _:
            problem = f"must be restate, run or the number of a job, not {text!r}"
            raise typer.BadParameter(problem, param_hint="--before")


def _refuse_conflicts(limits: _Limits, states: _States, others: _Others) -> None:
    """Raise BadParameter for options that do not make one comparison."""
    for given in (states.given_options, others.given_options):
        if len(given) > 1:
            raise typer.BadParameter(f"{given[0]} cannot be combined with {given[1]}")
    if not states.given_options and not others.given_options:
        raise typer.BadParameter(
            "the other side is missing; give --before, --snapshot, --version, --as-of, --with, "
            "--sql or --with-window"
        )
    for name, value, needed, other in (
        ("--sql", others.sql, "--connection", others.connection),
        ("--connection", others.connection, "--sql", others.sql),
        ("--with-window", others.window, "--window", limits.window),
    ):
        if value is not None and other is None:
            raise typer.BadParameter(f"{name} needs {needed}")
    if limits.window is not None and (limits.start is not None or limits.end is not None):
        raise typer.BadParameter("--window cannot be combined with --from and --to")


def _split_names(texts: Iterable[str] | None) -> tuple[str, ...]:
    """Return the comma-separated names of repeated options, in their order."""
    names = (name.strip() for text in texts or () for name in text.split(","))
    return tuple(dict.fromkeys(filter(None, names)))


def _compare(
    runner: "Runner", rows: "TableRows", state: "State | None", right: "Side | State", rule: "Rule"
) -> "ReportedComparison":
    """Compare the rows in a state with the other side. Raises UsageError if that fails."""
    from logdriven_dagster.cli.shown.rendering import redirect_output
    from logdriven_dagster.errors import StepError, UsageError, in_brief
    from logdriven_dagster.execution.inspection import comparing

    try:
        with redirect_output():  # Spark may start, and print
            project = runner.project
            left, other = comparing.find_sides(project, runner.run_log, rows, state, right)
            return comparing.compare(project, runner.compare, left, other, rule)
    except StepError as error:  # its exit code would mean a difference
        problem = in_brief(str(error))
        raise UsageError(f"could not compare {rows.table}: {problem}") from None
