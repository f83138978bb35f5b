"""`logdriven compare`: which two sides, the output, and exit codes. Rows: tests/engine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.comparison.values import (
    Comparison,
    Example,
    QueryRows,
    Rule,
    SchemaDifference,
    Side,
    TableRows,
)
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.execution.opening import substitute_engine
from logdriven_dagster.testing import NullEngine
from tests.builders import day, days
from tests.cli.conftest import CommandLine

NOW = ("--now", "2022-01-04")
DAILY, OLD, NEW = "dws.daily", "SELECT id FROM t WHERE id > 1", "SELECT id FROM t WHERE id > 2"
GROUPED = "SELECT :data_range_start AS day, origin, count(*) AS n FROM t GROUP BY origin"
EQUAL = Comparison((), 3, 3, 0, 0, 0, {})


class Comparing(NullEngine):
    """An engine whose comparisons have a given result, and which records their sides."""

    def __init__(self, result: Comparison) -> None:
        super().__init__()
        self.result = result
        self.asked: list[tuple[Side, Side, Rule]] = []

    def compare(self, left: Side, right: Side, rule: Rule) -> Comparison:
        self.asked.append((left, right, rule))
        return self.result


@pytest.fixture
def engine(null_project: Path) -> Any:
    engine = Comparing(EQUAL)
    with substitute_engine(engine):
        yield engine


def write(folder: Path, name: str, sql: str, kind: str = "iceberg") -> None:
    step = {"step": "load", "sql": sql, "target": {"type": kind}}
    table = {"table": name, "period": "1 day", "default_start": "2022-01-01", "steps": [step]}
    (folder / "tables" / f"{name}.yaml").write_text(json.dumps(table))


Publish = Callable[..., str]


@pytest.fixture
def publish(engine: Comparing, null_project: Path, logdriven: CommandLine) -> Publish:
    """A function that runs a day of a table and commits a snapshot of this attempt, as Spark does.

    Returns the id of the snapshot.
    """
    write(null_project, DAILY, OLD)
    tables: list[Any] = []

    def commit(*job_ids: int) -> str:
        if not tables:
            catalog = open_catalog(load_project(null_project))
            catalog.create_namespace("dws")
            tables.append(catalog.create_table(DAILY, pa.schema([("id", pa.int64())])))
        for job_id in job_ids:
            properties = {"job_id": str(job_id), "table": DAILY}
            tables[0].append(pa.table({"id": [job_id]}), snapshot_properties=properties)
        return str(tables[0].current_snapshot().snapshot_id)

    return commit


def test_before_a_restatement_is_the_snapshot_that_its_attempts_replaced(
    publish: Publish, engine: Comparing, null_project: Path, logdriven: CommandLine
):
    logdriven("run", *NOW)
    before = publish(1, 2, 3)
    write(null_project, DAILY, NEW)
    logdriven("restate", DAILY, "--reason", "threshold is 2", "--operator", "ann", *NOW)
    unchanged = logdriven("compare", DAILY, "--before", "restate")
    assert unchanged.code == 2
    assert "dws.daily has not changed since" in unchanged.err
    for _ in range(2):  # a process that died in the middle, and another one
        logdriven("run", DAILY, "--max-windows", "1", *NOW)
    publish(4)
    current = publish(5)
    result = logdriven("compare", DAILY, "--before", "restate")
    assert result.code == 0, result.err
    assert engine.asked[-1][:2] == (
        TableRows(DAILY, snapshot=before),
        TableRows(DAILY, snapshot=current),
    )
    assert "before the restatement: threshold is 2 (ann)" in result.out


def test_a_state_is_named_by_run_job_version_or_time(
    publish: Publish, engine: Comparing, null_project: Path, logdriven: CommandLine
):
    logdriven("run", "--max-windows", "2", *NOW)
    snapshots = [publish(1), publish(2)]
    write(null_project, DAILY, NEW)
    logdriven("run", *NOW)
    publish(3)

    def left(*options: str) -> Any:
        result = logdriven("compare", DAILY, *options)
        assert result.code == 0, result.err
        return engine.asked[-1][0].snapshot  # type: ignore[union-attr]

    assert left("--before", "2") == snapshots[0]
    assert left("--version", "1") == snapshots[1]
    assert left("--snapshot", snapshots[0]) == snapshots[0]
    assert left("--as-of", "2100-01-01") == publish()
    left("--snapshot", snapshots[1], "--snapshot", snapshots[0])
    assert engine.asked[-1][1] == TableRows(DAILY, snapshot=snapshots[0])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--before", "1"], "the state before job 1 has expired, or nothing was"),
        (["--as-of", "2000-01-01"], "the state at 2000-01-01 00:00:00 has expired, or"),
        (["--snapshot", "17"], "dws.daily has no snapshot 17, or it has expired"),
        (["--version", "7"], "no attempt of dws.daily ran version 7"),
        (["--before", "restate"], "dws.daily was never restated"),
        (["--before", "soon"], "must be restate, run or the number of a job"),
        ([], "the other side is missing"),
        (["--sql", "SELECT 1"], "--sql needs --connection"),
        (["--with-window", "2022-01-02"], "--with-window needs --window"),
        (["--before", "run", "--version", "1"], "--before cannot be combined with --version"),
    ],
)
def test_a_side_that_does_not_exist_is_refused_with_code_2(
    publish: Publish, logdriven: CommandLine, options: list[str], problem: str
):
    logdriven("run", *NOW)
    publish(1)
    result = logdriven("compare", DAILY, *options)
    assert (result.code, problem in result.err) == (2, True), result.err


def test_a_state_whose_snapshot_has_expired_is_refused(
    publish: Publish, null_project: Path, logdriven: CommandLine
):
    logdriven("run", *NOW)
    publish(1)
    oldest = publish(2)
    table = open_catalog(load_project(null_project)).load_table(DAILY)
    first = table.metadata.snapshots[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(first).commit()
    result = logdriven("compare", DAILY, "--before", "2")
    assert result.code == 2
    assert "the state before job 2 has expired, or nothing was published before" in result.err
    assert oldest in result.err


def test_a_table_that_was_never_published_is_refused_with_code_2(
    engine: Comparing, null_project: Path, logdriven: CommandLine
):
    write(null_project, DAILY, OLD)
    result = logdriven("compare", DAILY, "--before", "run")
    assert result.code == 2
    assert "dws.daily was never published" in result.err


def test_targets_without_snapshots_are_compared_with_tables_windows_and_queries(
    engine: Comparing, null_project: Path, logdriven: CommandLine
):
    write(null_project, "ods.one", GROUPED, "parquet")
    write(null_project, "ods.other", OLD, "parquet")
    refused = logdriven("compare", "ods.one", "--before", "run")
    assert refused.code == 2
    assert "ods.one has a target of type parquet, which keeps only its current rows" in refused.err
    assert logdriven("compare", "ods.one", "--with", "ods.other").code == 0
    assert engine.asked[-1][:2] == (TableRows("ods.one"), TableRows("ods.other"))
    window = ("--window", "2022-01-01", "--with-window", "2022-01-02")
    assert logdriven("compare", "ods.one", *window, "--exclude", "day").code == 0
    assert engine.asked[-1][:2] == (TableRows("ods.one", day(1)), TableRows("ods.one", day(2)))
    span = ("--from", "2022-01-01", "--to", "2022-01-03")
    query = ("--sql", "SELECT 1 AS n;", "--connection", "shop")
    assert logdriven("compare", "ods.one", *span, *query).code == 0
    assert engine.asked[-1][:2] == (
        TableRows("ods.one", days(1, 3)),
        QueryRows("shop", "SELECT 1 AS n"),
    )


def test_the_key_is_given_or_that_of_the_table(
    engine: Comparing, null_project: Path, logdriven: CommandLine
):
    write(null_project, "ods.one", GROUPED, "parquet")
    write(null_project, "ods.other", OLD, "parquet")

    def rule(*options: str) -> Rule:
        assert logdriven("compare", "ods.one", "--with", "ods.other", *options).code == 0
        return engine.asked[-1][2]

    assert (rule().key, rule().requires_key) == (("day", "origin"), False)
    given = rule("--key", "b, a", "--columns", "n", "--tolerance", "0.5", "--examples", "2")
    assert given == Rule(("b", "a"), requires_key=True, columns=("n",), tolerance=0.5, examples=2)


FOUND = Comparison(
    ("day", "origin"),
    *(93, 92, 1, 0, 2),
    {"delayed": 2},
    (SchemaDifference("new", None, "int"),),
    None,
    (
        Example("delayed", {"day": "2013-01-01", "origin": "EWR"}, "33", "12"),
        Example(None, {"day": "2013-01-02", "origin": "\x1bJFK"}, "1", "0"),
    ),
)


def compare_other(null_project: Path, logdriven: CommandLine, *options: str) -> Any:
    for name in ("ods.one", "ods.other"):
        write(null_project, name, GROUPED, "parquet")
    return logdriven("compare", "ods.one", "--with", "ods.other", *options)


def test_differences_are_printed_with_examples_and_code_1(
    engine: Comparing, null_project: Path, logdriven: CommandLine
):
    engine.result = FOUND
    result = compare_other(null_project, logdriven)
    assert result.code == 1
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[:5] == [
        "left: ods.one",
        "right: ods.other",
        "93 rows compared by (day, origin): delayed differs in 2, 1 only left",
        "rows: 93 left, 92 right",
        "column new (int) only right",
    ]
    assert "2013-01-01 EWR delayed 33 12" in lines
    assert "only left: day=2013-01-02, origin=" in result.out
    assert "\x1b" not in result.out
    assert engine.asked[-1][2].examples == 5


def test_the_summary_states_that_nothing_else_differs(
    engine: Comparing, null_project: Path, logdriven: CommandLine
):
    engine.result = Comparison(("day", "origin"), 36, 36, 0, 0, 12, {"delayed": 12})
    result = compare_other(null_project, logdriven)
    said = "36 rows compared by (day, origin): delayed differs in 12, nothing else"
    assert said in result.out


def test_a_key_that_is_not_unique_is_reported(
    engine: Comparing, null_project: Path, logdriven: CommandLine
):
    engine.result = Comparison(("day",), 3, 3, 1, 1, 0, {}, duplicates=(1, 0))
    out = compare_other(null_project, logdriven).out
    assert "3 rows compared as a whole: 1 only left, 1 only right" in out
    assert "the key (day) is not unique: 1 key left and 0 keys right have several rows" in out


def test_json_and_markdown_hold_no_values_of_rows_by_default(
    engine: Comparing, null_project: Path, logdriven: CommandLine
):
    engine.result = FOUND
    result = compare_other(null_project, logdriven, "--json")
    assert engine.asked[-1][2].examples == 0
    assert result.code == 1
    found = result.json
    assert found["is_equal"] is False
    assert found["columns"] == {"delayed": 2}
    assert found["left"]["table"] == "ods.one"
    markdown = compare_other(null_project, logdriven, "--markdown").out
    assert engine.asked[-1][2].examples == 0
    assert "| delayed | 2 |" in markdown
