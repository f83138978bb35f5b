"""What queries read and made, over real Spark. Checklist row B30."""

import logging

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.model.lineage import ColumnRef, Container
from logdriven_dagster.runlog.observed import lineage_answers
from logdriven_dagster.runlog.schema.observations import lineage_query, lineage_run

ONE_DAY = {"max_windows": 2}


def ask(world, question, *arguments):
    with world.runner.run_log.read() as conn:
        return question(conn, *arguments)


def origins(query):
    return {made.column: [str(ref) for ref in made.origins] for made in query.columns}


@pytest.mark.usefixtures("long")
def test_each_query_of_an_attempt_is_stored_with_its_columns_b30(spark, world):
    world.catch_up(**ONE_DAY)
    numbers, sums = (
        ask(world, lineage_answers.find_by_attempt, row["job_id"]).queries for row in world.log()
    )
    assert origins(numbers[0]) == {
        "day": ["data/numbers.csv.day"],
        "n": ["data/numbers.csv.n"],
    }
    assert numbers[0].text.startswith("SELECT day, CAST(n AS INT)")
    assert origins(sums[0]) == {"total": ["ods.numbers.n"]}
    assert sums[0].columns[0].functions == ("sum",)


def test_a_column_is_followed_over_tables_both_ways_b30(spark, world):
    world.catch_up(**ONE_DAY)
    column = ColumnRef(Container("ods.numbers"), "n")
    links = ask(world, lineage_answers.find_by_column, column)
    assert [(link.direction, str(link.source), str(link.target)) for link in links] == [
        ("U", "data/numbers.csv.n", "ods.numbers.n"),
        ("D", "ods.numbers.n", "dws.sums.total"),
    ]


@pytest.mark.usefixtures("long")
def test_a_query_is_computed_once_and_every_attempt_names_it_b30(spark, world, monkeypatch):
    world.catch_up()
    with world.runner.run_log.read() as conn:
        assert len(conn.execute(lineage_query.select()).all()) == 2
        assert len(conn.execute(lineage_run.select()).all()) == 8
    monkeypatch.setattr(
        "logdriven_dagster.execution.listeners.lineage.trace_lineage", None
    )  # not again
    world.sql("UPDATE job_log SET status = 'FAILURE' WHERE job_id = 1")
    (event,) = [e for e in world.catch_up(max_windows=1) if isinstance(e, WindowSucceeded)]
    assert origins(event.lineage[0])["n"] == ["data/numbers.csv.n"]


def test_views_star_and_whole_rows_are_followed_b30(spark, world):
    world.write(
        "tables/steps.yaml",
        """
        table: dwd.steps
        period: 1 day
        default_start: 2022-01-01
        depends_on: [ods.numbers]
        steps:
          - {step: all_of_it, sql: SELECT * FROM ods.numbers}
          - step: shape
            sql: SELECT n * 2 AS twice, count(*) AS c, 'x' AS mark FROM all_of_it GROUP BY n
            target: {type: iceberg}
        """,
    )
    world.catch_up(tables=["ods.numbers", "dwd.steps"], **ONE_DAY)
    (row,) = world.log("dwd.steps")
    view, shape = ask(world, lineage_answers.find_by_attempt, row["job_id"]).queries
    assert origins(view) == {"day": ["ods.numbers.day"], "n": ["ods.numbers.n"]}
    assert origins(shape) == {
        "twice": ["dwd.steps#all_of_it.n"],
        "c": ["dwd.steps#all_of_it.*"],
        "mark": [],
    }
    links = ask(world, lineage_answers.find_by_column, ColumnRef(Container("dwd.steps"), "twice"))
    assert [str(link.source) for link in links] == [
        "dwd.steps#all_of_it.n",
        "ods.numbers.n",
        "data/numbers.csv.n",
    ]


def test_lineage_that_cannot_be_computed_is_logged_and_the_window_succeeds_b30(
    world, monkeypatch, caplog
):
    def broken(*_):
        raise RuntimeError("out of ideas")

    monkeypatch.setattr("logdriven_dagster.execution.listeners.lineage.trace_lineage", broken)
    with caplog.at_level(logging.WARNING):
        world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert "ods.numbers job 1: lineage not recorded: RuntimeError: out of ideas" in caplog.text
    assert world.statuses("ods.numbers") == [("01", "SUCCESS")]
    assert ask(world, lineage_answers.find_by_attempt, 1).queries == ()


def test_the_lineage_of_a_python_step_is_all_that_it_may_read(spark, world):
    world.write("tables/t.py", "def double(ods_numbers):\n    return ods_numbers.select('n')")
    world.write(
        "tables/doubled.yaml",
        """
        table: dwd.doubled
        period: 1 day
        default_start: 2022-01-01
        depends_on: [ods.numbers]
        properties: {run: {factor: 2}}
        steps: [{step: double, python: "t.py:double", target: {type: iceberg}}]
        """,
    )
    world.catch_up(tables=["ods.numbers", "dwd.doubled"], **ONE_DAY)
    (row,) = world.log("dwd.doubled")
    (query,) = ask(world, lineage_answers.find_by_attempt, row["job_id"]).queries
    assert (query.type, query.text) == ("python", "t.py:double")
    assert origins(query) == {"n": ["ods.numbers.*"]}


def test_a_python_transform_can_ask_for_properties_b31(spark, world):
    body = "spark.sql('SELECT ' + str(properties['run']['n']) + ' AS n')"
    world.write("tables/t.py", f"def rows(spark, properties):\n    return {body}")
    world.write(
        "tables/given.yaml",
        """
        table: dwd.given
        period: 1 day
        default_start: 2022-01-01
        properties: {run: {n: 42}}
        steps: [{step: rows, python: "t.py:rows", target: {type: iceberg}}]
        """,
    )
    world.catch_up(tables=["dwd.given"], max_windows=1)
    assert world.rows("dwd.given") == [(42,)]


def test_secrets_stay_out_of_stored_queries(spark, world, monkeypatch):
    monkeypatch.setenv("HIDDEN_WORD", "hush-hush")
    world.write("logdriven.yaml", "project: world\nvariables: {word: '${env:HIDDEN_WORD}'}")
    text = (world.root / "tables/numbers.yaml").read_text()
    text = text.replace("CAST(n AS INT) AS n FROM", "concat('${word}', n) AS n FROM")
    (world.root / "tables/numbers.yaml").write_text(text)
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert world.rows("ods.numbers")[0][1] == "hush-hush11"
    (query,) = ask(world, lineage_answers.find_by_attempt, 1).queries
    assert "${env:HIDDEN_WORD}" in query.text
    assert "hush" not in query.text


def test_a_project_can_do_without(world):
    world.write("logdriven.yaml", "project: world\nlineage: false")
    assert not load_project(world.root).config.lineage
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert ask(world, lineage_answers.find_by_attempt, 1).queries == ()


def test_an_attempt_that_fails_leaves_no_lineage(world):
    world.numbers("2022-01-01,oops")
    world.catch_up(tables=["ods.numbers"])
    assert world.statuses("ods.numbers") == [("01", "FAILURE")]
    assert ask(world, lineage_answers.find_by_attempt, 1).queries == ()


@pytest.mark.parametrize("kind", ["find_by_attempt", "find_by_batch"])
def test_an_unknown_number_is_reported(world, kind):
    with pytest.raises(UsageError, match=r"no (attempt|batch)"):
        ask(world, getattr(lineage_answers, kind), 99)
