"""Projects of one name, renamed and moved ones: whose the windows of a log are."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import RunLogError, UsageError
from logdriven_dagster.execution.definitions.homes import adopt, enter, settle
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.testing.null_engine import NullEngine, null_engine
from tests.builders import at

TABLE = """
table: {name}
period: 1 day
default_start: 2022-01-01
steps:
  - step: load
    sql: SELECT 1 AS n
    target: {{type: {target}}}
"""
NOW = at("2022-01-03")


@pytest.fixture(autouse=True)
def engine() -> Iterator[NullEngine]:
    with null_engine() as engine:
        yield engine


@dataclass(frozen=True)
class Owner:
    """A project folder on a run log that others use as well."""

    root: Path
    log: str

    def write(
        self, name: str, table: str = "ods.a", target: str = "parquet", more: str = ""
    ) -> "Owner":
        (self.root / "tables").mkdir(parents=True, exist_ok=True)
        (self.root / "logdriven.yaml").write_text(f"project: {name}\nrun_log: {self.log}\n{more}")
        (self.root / "tables" / "a.yaml").write_text(TABLE.format(name=table, target=target))
        return self

    def run(self) -> list[str]:
        """Apply the files and catch up, as `logdriven run` does; the events' names."""
        registered = register(self.root)
        runner = open_runner(registered.project, run_log=registered.run_log)
        return [type(event).__name__ for event in runner.catch_up(NOW)]


DONE = ["WindowStarted", "WindowSucceeded"] * 2


@pytest.fixture
def log(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shared.db'}"


@pytest.fixture
def one(tmp_path: Path, log: str) -> Owner:
    return Owner(tmp_path / "one", log).write("a")


@pytest.fixture
def two(tmp_path: Path, log: str) -> Owner:
    return Owner(tmp_path / "two", log)


def test_a_second_project_with_a_table_of_the_same_name_has_its_own_windows(one: Owner, two: Owner):
    assert one.run() == DONE
    assert two.write("b").run() == DONE
    assert one.run() == two.run() == []


def test_a_second_project_of_the_same_name_in_another_folder_is_refused(one: Owner, two: Owner):
    assert one.run() == DONE
    two.write("a")
    with pytest.raises(RunLogError) as refused:
        two.run()
    assert str(refused.value).startswith("could not open project a: according to the run log")
    assert f"its tables are in {one.root}/.logdriven/warehouse; here, in {two.root}" in str(
        refused.value
    )


def test_a_second_project_of_the_same_name_does_not_delete_definitions_of_the_first(
    one: Owner, two: Owner
):
    one.run()
    two.write("a", "ods.other")
    with pytest.raises(RunLogError, match="a second project needs a name of its own"):
        register(two.root)


def test_one_project_goes_on_from_any_folder_if_its_rows_are_in_one_place(
    one: Owner, two: Owner, tmp_path: Path
):
    shared = f"warehouse: {tmp_path / 'lake'}"
    assert one.write("a", more=shared).run() == DONE
    assert two.write("a", more=shared).run() == []


def test_two_projects_do_not_keep_their_rows_in_one_place(one: Owner, two: Owner, tmp_path: Path):
    shared = f"warehouse: {tmp_path / 'lake'}"
    assert one.write("a", more=shared).run() == DONE
    two.write("b", more=shared)
    with pytest.raises(RunLogError) as refused:
        two.run()
    told = str(refused.value)
    assert f"could not open project b: the place of ods.a is {tmp_path / 'lake'}/ods/a" in told
    assert f"project a (folder {one.root}) keeps its ods.a, according to the run log" in told
    assert "; give b a place of its own" in told
    two.write("b", "ods.b", more=shared)
    assert two.run() == DONE


def test_a_renamed_project_goes_on_and_its_old_name_is_free(one: Owner, two: Owner):
    assert one.run() == DONE
    assert one.write("renamed").run() == []
    assert two.write("a").run() == DONE
    assert one.run() == two.run() == []


def test_a_project_that_was_renamed_and_moved_goes_on_once_it_is_adopted(one: Owner, two: Owner):
    one.run()
    two.write("b")
    project = load_project(two.root)
    adopted = adopt(project, RunLog.open(project.run_log_url), "a")
    assert [item.name for item in adopted] == ["project b", "ods.a"]
    assert f"a: {one.root}/.logdriven/warehouse (folder {one.root}" in str(adopted[0].was)
    assert f"{one.root}/.logdriven/warehouse/ods/a" in str(adopted[1].was)
    assert two.run() == []


def test_only_a_project_without_windows_takes_over_those_of_another_name(one: Owner, two: Owner):
    one.run()
    project = load_project(two.write("b").root)
    log = RunLog.open(project.run_log_url)
    with pytest.raises(UsageError, match="the run log has no project nobody"):
        adopt(project, log, "nobody")
    register(two.root)
    assert adopt(project, log, "a")
    assert two.run() == []
    assert one.run() == DONE
    with pytest.raises(UsageError, match="project b has its own windows in the run log"):
        adopt(project, log, "a")


@pytest.mark.parametrize("target", ["parquet", "delta", "iceberg"])
def test_a_moved_folder_is_refused_with_the_old_and_the_new_place(
    tmp_path: Path, log: str, target: str
):
    moved = Owner(tmp_path / "new", log)
    old = Owner(tmp_path / "old", log).write("a", target=target)
    old.run()
    shutil.move(old.root, moved.root)
    with pytest.raises(RunLogError) as refused:
        moved.run()
    assert f"are in {old.root}/.logdriven/warehouse; here" in str(refused.value)
    assert f"the place is {moved.root}/.logdriven/warehouse" in str(refused.value)


def test_a_table_may_get_another_target_in_its_own_folder_alone(one: Owner, two: Owner):
    one.write("a", target="parquet, path: first").run()
    one.write("a", target="parquet, path: second")
    assert one.run() == []
    two.write("a", target="parquet, path: third")
    with pytest.raises(RunLogError, match=r"ods\.a is in .*/one/second; here.* is .*/two/third"):
        two.run()


def test_a_warehouse_that_moves_is_refused_in_the_same_folder(one: Owner):
    one.run()
    one.write("a", more="warehouse: elsewhere")
    with pytest.raises(RunLogError, match=r"its tables are in .*warehouse; here.* is .*elsewhere"):
        one.run()


def test_a_place_that_is_not_known_here_is_compared_with_nothing(
    one: Owner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("LAKE", str(tmp_path / "lake"))
    one.write("a", more="warehouse: ${env:LAKE}").run()
    monkeypatch.delenv("LAKE")
    project = load_project(one.root)
    enter(project, RunLog.open(project.run_log_url))


def test_of_two_folders_of_a_name_that_run_for_the_first_time_at_once_one_has_it(
    one: Owner, two: Owner
):
    """Both have seen an empty log; the second meets the unique name."""
    first, second = (load_project(owner.root) for owner in (one, two.write("a")))
    runners = [open_runner(project) for project in (first, second)]
    settle(first, runners[0].run_log, first.tables.values())
    with pytest.raises(RunLogError, match="a second project needs a name of its own"):
        list(runners[1].catch_up(NOW))
    assert len(list(runners[0].catch_up(NOW))) == len(DONE)
