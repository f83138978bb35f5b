"""logdriven_dagster: by its command, by Dagster's, and in its variants."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.data import COLUMNS, FIRST_DAY, midnight
from benchmarks.iceberg_files import files_of
from benchmarks.settings import SPARK, own_environment, own_python
from benchmarks.tasks import Command, Contestant, Task, UnavailableError, Written, no_log

TABLE = "bench.orders"


@dataclass(frozen=True, slots=True)
class Variant:
    """How a project differs from the plainest one."""

    table: tuple[tuple[str, Any], ...] = ()
    """Fields of the table."""
    spark: tuple[tuple[str, Any], ...] = ()
    """Fields of `spark:` in logdriven.yaml."""
    project: tuple[tuple[str, Any], ...] = ()
    """Fields of logdriven.yaml itself."""
    source: tuple[tuple[str, Any], ...] = ()
    """Fields of the source."""
    step: tuple[tuple[str, Any], ...] = ()
    """Fields of the step."""
    target: str = "parquet"
    window_column: str | None = "day"
    """The `window_column` of the target. The days are disjoint by it."""
    warm: bool = False
    """Whether `logdriven spark start` has started a Spark Connect server before."""


def write_project(task: Task, variant: Variant) -> None:
    """A project of one table. UnavailableError if the configuration refuses the variant."""
    settings = {
        "project": "bench",
        "timezone": "UTC",
        "spark": {
            "master": SPARK["spark.master"],
            "config": {name: text for name, text in SPARK.items() if name != "spark.master"},
            # A run would start a training in the background, beside the next contestant.
            "archive": "manual",
            **dict(variant.spark),
        },
        "connections": {"shop": {"url": task.database}} if task.database else {},
        **dict(variant.project),
    }
    step = {
        "step": "load",
        "source": {
            "type": "parquet",
            "path": str(task.source),
            "window_column": "ordered_at",
            **dict(variant.source),
        },
        "sql": task.query("source", "true"),
        "target": _target(variant),
        **dict(variant.step),
    }
    table = {
        "table": TABLE,
        "period": "1 day",
        "default_start": FIRST_DAY.isoformat(),
        "batch_size": 1,
        "steps": [step],
        **dict(variant.table),
    }
    (task.state / "tables").mkdir(parents=True, exist_ok=True)
    (task.state / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    (task.state / "tables" / "orders.yaml").write_text(yaml.safe_dump(table))
    _refuse_unknown(task.state)


def _target(variant: Variant) -> dict[str, str]:
    if variant.target == "jdbc":
        return {
            "type": "jdbc",
            "connection": "shop",
            "table": _database_table(variant),
            "window_column": "day",
        }
    column = variant.window_column
    return {"type": variant.target, **({"window_column": column} if column else {})}


def _database_table(variant: Variant) -> str:
    """The table of a variant in the database, which all of them share."""
    return "our_batched_orders" if variant.table else "our_orders"


def _refuse_unknown(folder: Path) -> None:
    from logdriven_dagster.config import load_project
    from logdriven_dagster.errors import LogdrivenError

    try:
        load_project(folder)
    except LogdrivenError as error:
        raise UnavailableError(f"the configuration refuses this variant: {error}") from None


def _program(name: str) -> str:
    return str(Path(own_python()).with_name(name))


def run_command(task: Task) -> Command:
    now = midnight(task.end).isoformat()
    words = (_program("logdriven"), "run", "--now", now, "--project", str(task.state))
    return Command(words, own_environment(), task.state)


def _run_with_archive(task: Task) -> Command:
    found = run_command(task)
    return replace(found, variables=found.variables | _own_cache(task))


def _own_cache(task: Task) -> dict[str, str]:
    """Keep Spark's archive from the other contestants."""
    return {"XDG_CACHE_HOME": str(task.state / "cache")}


def make_archive(task: Task) -> None:
    """`logdriven spark warm`; a second call finds the archive of the first."""
    command = [_program("logdriven"), "spark", "warm", "--project", str(task.state)]
    variables = own_environment() | _own_cache(task)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"`logdriven spark warm` failed: {done.stdout}{done.stderr}")


def _execute(task: Task) -> Command:
    config = {"ops": {"catch_up": {"config": {"now": midnight(task.end).isoformat()}}}}
    run, home = task.state / "run.yaml", task.state / "dagster_home"
    run.write_text(yaml.safe_dump(config))
    home.mkdir(exist_ok=True)
    # Dagster would tell its makers of every run.
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    words = ["job", "execute", "-m", "logdriven_dagster.definitions", "-j", "catch_up"]
    words += ["-c", str(run)]
    variables = {"LOGDRIVEN_PROJECT": str(task.state), "DAGSTER_HOME": str(home)}
    return Command((_program("dagster"), *words), own_environment() | variables, task.state)


def written(task: Task, variant: Variant) -> Written:
    target = variant.target
    if target == "jdbc":
        return Written(table=_database_table(variant))
    from logdriven_dagster.config import load_project
    from logdriven_dagster.config.locations import as_path

    project = load_project(task.state)
    if target == "iceberg":
        from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog

        return Written(files_of(open_catalog(project).load_table(TABLE)))
    return Written(_pointed_files(Path(as_path(project.warehouse), *TABLE.split("."))))


def _pointed_files(folder: Path) -> tuple[Path, ...]:
    """The files that the newest pointer of each window of a file target names."""
    newest = {path.name.partition(".")[0]: path for path in sorted((folder / "_windows").iterdir())}
    pointers = [json.loads(path.read_text()) for path in newest.values()]
    return tuple(
        sorted(
            folder / "data" / each["folder"] / name for each in pointers for name in each["files"]
        )
    )


def windows(task: Task) -> list[float]:
    """Seconds of each window of the last process, by `job_log`."""
    from logdriven_dagster.config import load_project
    from logdriven_dagster.execution.opening import open_runner
    from logdriven_dagster.runlog.history import logs as history

    log, number = open_runner(load_project(task.state)).run_log, task.end - task.begin
    rows = log.ask(lambda conn: history.list_attempts(conn, TABLE, number))
    instants = [
        [datetime.fromisoformat(row[name]) for name in ("job_start_time", "job_end_time")]
        for row in reversed(rows)
    ]
    return [(ended - started).total_seconds() for started, ended in instants]


def server(task: Task, word: str) -> None:
    """`logdriven spark start` or `stop`; UnavailableError if it does not start."""
    command = [_program("logdriven"), "spark", word, "--project", str(task.state)]
    done = subprocess.run(
        command, env=own_environment(), cwd=task.state, capture_output=True, text=True, check=False
    )
    if done.returncode and word == "start":
        raise UnavailableError(f"`logdriven spark start` failed: {done.stdout}{done.stderr}")


def restate(task: Task) -> None:
    """Restate all windows by a query of the same rows, once a first load has run."""
    if not (task.state / ".logdriven").exists():
        return
    path = task.state / "tables" / "orders.yaml"
    table = yaml.safe_load(path.read_text())
    table["steps"][0]["sql"] = task.query("source", "order_id IS NOT NULL")
    path.write_text(yaml.safe_dump(table))
    for words in (("apply",), ("restate", TABLE, "--reason", "the query changed")):
        command = [_program("logdriven"), *words, "--project", str(task.state)]
        subprocess.run(command, env=own_environment(), check=True, capture_output=True)


def _contestant(
    label: str, variant: Variant, command: Callable[[Task], Command] = run_command
) -> Contestant:
    contestant = Contestant(
        label,
        partial(write_project, variant=variant),
        command,
        partial(written, variant=variant),
        windows=no_log if "batch_size" in dict(variant.table) else windows,
    )
    if not variant.warm:
        return contestant
    start, stop = (partial(server, word=word) for word in ("start", "stop"))
    return replace(contestant, before=start, after=stop)


_WINDOWWISE = Variant()
_BATCHED = Variant(table=(("batch_size", "all"),))
_DEFAULTS = Variant(table=(("batch_size", "auto"),), window_column=None)
_WARM = Variant(spark=(("remote", "auto"),), warm=True)
_SAIL = Variant(spark=(("engine", "sail"),), source=(("columns", COLUMNS),))
_ONE_CORE = Variant(spark=(("master", "local[1]"),))
_ICEBERG = Variant(target="iceberg")
_ICEBERG_BATCHED = replace(_BATCHED, target="iceberg")
_PARALLEL = Variant(table=(("ordered", False),), project=(("max_parallel", 2),))

CONTESTANTS = {
    "dagster": _contestant("logdriven by `dagster job execute`", _WINDOWWISE, _execute),
    "dagster-batched": _contestant(
        "logdriven by `dagster job execute`, batch_size all", _BATCHED, _execute
    ),
    "logdriven": _contestant("`logdriven run`, batch_size 1", _WINDOWWISE),
    "logdriven-defaults": _contestant("`logdriven run`, no setting for speed", _DEFAULTS),
    "logdriven-batched": _contestant("`logdriven run`, batch_size all", _BATCHED),
    "logdriven-restated": replace(
        _contestant("`logdriven run`, no setting for speed", _DEFAULTS), before=restate
    ),
    "logdriven-archive": replace(
        _contestant(
            "`logdriven run`, with an archive of Spark's classes", _DEFAULTS, _run_with_archive
        ),
        before=make_archive,
    ),
    "logdriven-warm": _contestant("`logdriven run`, warm Spark Connect server", _WARM),
    "logdriven-sail": _contestant("`logdriven run` on Sail", _SAIL),
    "logdriven-sail-batched": _contestant(
        "`logdriven run` on Sail, batch_size all", replace(_SAIL, table=_BATCHED.table)
    ),
    "logdriven-sail-iceberg": _contestant(
        "`logdriven run` on Sail, Iceberg", replace(_SAIL, target="iceberg")
    ),
    "logdriven-parallel": _contestant("`logdriven run`, two windows at once", _PARALLEL),
    "logdriven-one-core": _contestant("`logdriven run`, one core", _ONE_CORE),
    "logdriven-iceberg": _contestant("`logdriven run`, Iceberg", _ICEBERG),
    "logdriven-iceberg-batched": _contestant(
        "`logdriven run`, Iceberg, batch_size all", _ICEBERG_BATCHED
    ),
    "dagster-iceberg": _contestant(
        "logdriven by `dagster job execute`, Iceberg", _ICEBERG, _execute
    ),
    "dagster-iceberg-batched": _contestant(
        "logdriven by `dagster job execute`, Iceberg, batch_size all", _ICEBERG_BATCHED, _execute
    ),
    "logdriven-jdbc": _contestant("`logdriven run`, PostgreSQL", Variant(target="jdbc")),
    "logdriven-jdbc-batched": _contestant(
        "`logdriven run`, PostgreSQL, batch_size all", replace(_BATCHED, target="jdbc")
    ),
}
