"""A planted password leaves by no door: log rows, events, console, files of the log."""

import os
import subprocess
import sys

import pytest

from logdriven_dagster.execution.events import NeedUnmet

PLANTED = "planted-pass-7hQ"


@pytest.mark.usefixtures("slow")
def test_a_password_appears_nowhere_when_its_connection_fails(world, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", PLANTED)
    world.write(
        "logdriven.yaml",
        """
        project: world
        connections:
          pg: {url: "postgresql://me:${env:DB_PASSWORD}@127.0.0.1:1/none"}
        """,
    )
    world.write(
        "tables/numbers.yaml",
        """
        table: ods.numbers
        period: 1 day
        default_start: 2022-01-01
        steps:
          - step: load
            source: {type: jdbc, connection: pg, table: t}
            target: {type: iceberg}
        """,
    )
    (unmet,) = (e for e in world.catch_up() if isinstance(e, NeedUnmet))
    assert "connection pg" in str(unmet.reason)
    assert PLANTED not in repr(unmet) + str(unmet.reason)
    command = [sys.executable, "-m", "logdriven_dagster.cli", "run", "--now", "2022-01-05"]
    command += ["--project", str(world.root)]
    environment = {**os.environ, "LOGDRIVEN_DEBUG": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 1
    assert PLANTED not in run.stdout + run.stderr
    for file in world.root.rglob("*"):
        assert not file.is_file() or PLANTED.encode() not in file.read_bytes(), file
