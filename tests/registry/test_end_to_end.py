"""Definitions move to another database and run there, on real Spark."""

from pathlib import Path

from logdriven_dagster.config.derived.exchange import format_yaml, parse_export
from logdriven_dagster.execution.definitions.changes import set_settings
from logdriven_dagster.execution.definitions.exchange import export, import_export
from logdriven_dagster.execution.definitions.registering import author, register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.definitions import Kind
from tests.execution.conftest import NOW, world

__all__ = ["world"]


def test_an_export_from_sqlite_runs_from_postgresql_with_the_same_codes_versions_and_plan(
    world, postgres_url, monkeypatch
):
    register(world.root)
    set_settings(world.root, {"dws.sums": {"retries": "2"}}, author("set"))
    world.write("tables/sums.yaml", (world.root / "tables/sums.yaml").read_text() + "priority: 5")
    here = register(world.root)
    exported, planned = export(world.root), plan(world, here)

    url = postgres_url.render_as_string(hide_password=False)
    monkeypatch.setenv("LOGDRIVEN_RUN_LOG", url)
    found = parse_export(Path("world.yaml"), format_yaml(exported))
    import_export(world.root, found, author("import"))
    there = register(world.root)
    assert there.changes == ()
    assert there.project.versions == here.project.versions
    assert export(world.root) == exported
    assert plan(world, there) == planned

    runner = open_runner(there.project, spark=lambda: world.spark, run_log=there.run_log)
    list(runner.catch_up(NOW))
    attempts = {(row["job_name"], row["status"], row["table_version"]) for row in world.log()}
    version = here.project.version(Kind.TABLE, "dws.sums")
    assert attempts == {("ods.numbers", "SUCCESS", 1), ("dws.sums", "SUCCESS", version)}
    assert version == 3


def plan(world, registered):
    runner = open_runner(registered.project, run_log=registered.run_log)
    return [(w.table, w.window, w.state, w.reason) for w in runner.plan(NOW).windows()]
