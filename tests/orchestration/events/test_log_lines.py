"""Runs of Dagster write the lines of their windows into their logs, if `dagster.yaml` says so."""

import json
from pathlib import Path
from typing import Any

from dagster import DagsterInstance

from logdriven_dagster.execution.listeners.log_lines import LOGGER
from tests.orchestration.world import ALONE, World


def test_a_line_names_the_run_and_the_application(tmp_path: Path, spark: Any):
    logs = {"python_logs": {"managed_python_loggers": [LOGGER], "python_log_level": "INFO"}}
    (tmp_path / "project").mkdir()
    with DagsterInstance.local_temp(str(tmp_path), overrides=logs) as instance:
        world = World(tmp_path / "project", instance).write(ALONE)
        run = world.catch_up(now="2022-01-02")
        told = [entry.user_message for entry in instance.all_logs(run.run_id)]
    (line,) = [json.loads(text) for text in told if text.startswith('{"time"')]
    assert (line["table"], line["status"]) == ("ods.alone", "SUCCESS")
    assert line["dagster_run_id"] == run.run_id
    assert line["application_id"] == spark.conf.get("spark.app.id")
