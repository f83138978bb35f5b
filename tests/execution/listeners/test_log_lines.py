"""A line of JSON for each attempt that has ended; without a listener there is none."""

import io
import json
import logging
from typing import Any

import pytest

from logdriven_dagster.execution.listeners.log_lines import LOGGER, lines_to
from tests.builders import day, run_window
from tests.execution.conftest import NOW


def lines_of(world: Any, **options: Any) -> list[dict[str, Any]]:
    stream = io.StringIO()
    with lines_to(stream):
        world.catch_up(**options)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_shows_the_attempt_as_the_log_records_it(world):
    (line,) = lines_of(world, tables=["ods.numbers"], max_windows=1)
    (row,) = world.log()
    assert line.pop("time").endswith("+00:00")
    assert line.pop("seconds") > 0
    assert line == {
        "project": "world",
        "table": "ods.numbers",
        "data_range_start": "2022-01-01T00:00:00+00:00",
        "data_range_end": "2022-01-02T00:00:00+00:00",
        "status": "SUCCESS",
        "trigger": "pending",
        "job_id": row["job_id"],
        "attempt_number": 1,
        "rows_read": 2,
        "rows_written": 2,
        "rows_rejected": 0,
        "rows_malformed": None,
        "error": None,
        "job_run_id": None,
        "dagster_run_id": None,
        "application_id": row["application_id"],
    }


def test_a_failure_has_its_step_and_its_error_in_brief_without_secrets(spark, world, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret-of-mine")
    world.write("logdriven.yaml", "project: world\nvariables: {token: '${env:TOKEN}'}")
    world.numbers("2022-01-01,1", "2022-01-02,2")
    world.write(
        "tables/numbers.yaml",
        """
        table: ods.numbers
        period: 1 day
        default_start: 2022-01-01
        steps:
          - step: load
            sql: SELECT CAST(raise_error(concat('no ', '${token}')) AS STRING) AS v
            target: {type: parquet}
        """,
    )
    (line,) = lines_of(world, tables=["ods.numbers"])
    assert (line["status"], line["step"]) == ("FAILURE", "load")
    assert "no " in line["error"]
    assert "s3cret-of-mine" not in json.dumps(line)
    assert "\n" not in line["error"]


def test_an_attempt_that_is_interrupted_is_reported(world):
    stream = io.StringIO()
    with lines_to(stream):
        running = run_window(world.runner, "ods.numbers", day(1), NOW)
        next(running)
        running.close()
    (line,) = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert (line["status"], line["error"]) == ("DISCARDED", "interrupted: GeneratorExit")


def test_only_those_who_asked_are_notified(world, caplog: pytest.LogCaptureFixture):
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert [record for record in caplog.records if record.name == LOGGER] == []
    assert not logging.getLogger(LOGGER).handlers
