"""The rows of a renamed table follow it, and those of a removed one can be removed, on Spark."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import NullPool, create_engine, inspect, text
from sqlalchemy.engine import URL

from logdriven_dagster.execution import upkeep
from logdriven_dagster.execution.definitions.registering import consult, register
from logdriven_dagster.execution.definitions.removed_tables import list_parts, remove_parts
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from tests.builders import at, day
from tests.execution.renamed_project import Renamed, daily

KINDS = ("iceberg", "delta", "parquet")


def tables(name: str, value: int, **fields: Any) -> list[dict[str, Any]]:
    """A table of each type of target, whose windows have one row."""
    found = []
    for kind in KINDS:
        table = daily(f"{name}_{kind}", target={"type": kind}, **fields)
        table["steps"][0]["sql"] = f"SELECT {value} AS n"
        if "renamed_from" in fields:
            table["renamed_from"] = f"{fields['renamed_from']}_{kind}"
        found.append(table)
    return found


def run(project: Renamed, spark: Any, now: str) -> Runner:
    registered = register(project.root)
    runner = open_runner(registered.project, spark=lambda: spark, run_log=registered.run_log)
    events = [type(event).__name__ for event in runner.catch_up(at(now))]
    assert not [each for each in events if "Failed" in each]
    return runner


def values(runner: Runner, name: str, window: Any = None) -> dict[str, list[int]]:
    read = {kind: runner.engine.read(f"{name}_{kind}", window) for kind in KINDS}
    return {kind: sorted(row.n for row in frame.collect()) for kind, frame in read.items()}


def all_are(*rows: int) -> dict[str, list[int]]:
    return {kind: list(rows) for kind in KINDS}


@pytest.mark.usefixtures("long")
def test_rows_follow_a_rename_and_a_new_table_of_the_earlier_name_has_its_own(
    tmp_path: Path, spark: Any
):
    project = Renamed(tmp_path).write(*tables("ods.old", 1))
    run(project, spark, "2022-01-03")
    project.write(*tables("dwd.new", 2, renamed_from="ods.old"))
    runner = run(project, spark, "2022-01-04")
    assert values(runner, "dwd.new") == all_are(1, 1, 2)
    assert values(runner, "dwd.new", day(2)) == all_are(1)
    list(runner.refresh("dwd.new_iceberg", day(2), at("2022-01-04")))
    assert values(runner, "dwd.new")["iceberg"] == [1, 2, 2]
    folders = {each.name for each in (tmp_path / ".logdriven/warehouse/ods").iterdir()}
    assert folders == {"old_iceberg"}  # an Iceberg table keeps its folder

    project.write(*tables("dwd.new", 2), *tables("ods.old", 3))
    runner = run(project, spark, "2022-01-04")
    assert values(runner, "ods.old") == all_are(3, 3, 3)
    for item in upkeep.garbage(runner.project, runner.run_log, timedelta(seconds=-60)):
        item.remove()
    assert values(runner, "dwd.new") == {**all_are(1, 1, 2), "iceberg": [1, 2, 2]}
    assert values(runner, "ods.old") == all_are(3, 3, 3)

    project.write(*tables("ods.old", 3))
    registered = consult(project.root)
    for kind in KINDS:
        for part in list_parts(registered, f"dwd.new_{kind}"):
            part.remove()
    assert [*(tmp_path / ".logdriven/warehouse/dwd").iterdir()] == []
    assert not (tmp_path / ".logdriven/warehouse/ods/old_iceberg").exists()
    assert values(run(project, spark, "2022-01-04"), "ods.old") == all_are(3, 3, 3)


@pytest.mark.usefixtures("long")
def test_a_database_table_keeps_its_name_and_is_dropped_with_the_removed_table(
    tmp_path: Path, spark: Any, database_url: URL, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TARGET_URL", database_url.render_as_string(hide_password=False))
    project = Renamed(tmp_path)

    def write(*names: str, **fields: Any) -> None:
        target = {"type": "jdbc", "connection": "db", "table": "t"}
        tables = [daily(name, target=target, **fields) for name in names]
        for table in tables:
            table["steps"][0]["sql"] = "SELECT day(:data_range_start) AS n"
        project.write(*tables, daily("ods.other"))
        settings = yaml.safe_load((tmp_path / "logdriven.yaml").read_text())
        settings["connections"] = {"db": {"url": "${env:TARGET_URL}"}}
        (tmp_path / "logdriven.yaml").write_text(yaml.safe_dump(settings))

    def rows(runner: Runner) -> list[int]:
        return sorted(row.n for row in runner.engine.read("dwd.new", None).collect())

    write("ods.old")
    run(project, spark, "2022-01-03")
    write("dwd.new", renamed_from="ods.old")
    runner = run(project, spark, "2022-01-04")
    assert rows(runner) == [1, 2, 3]
    list(runner.refresh("dwd.new", day(2), at("2022-01-04")))
    assert rows(runner) == [1, 2, 3]
    write()
    parts = list_parts(consult(project.root), "dwd.new")
    assert [part.location for part in parts] == ["db:t"]
    remove_parts(parts)
    engine = create_engine(database_url, poolclass=NullPool)
    assert inspect(engine).get_table_names() == ["logdriven_commit"]
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM logdriven_commit")).scalar() == 0
