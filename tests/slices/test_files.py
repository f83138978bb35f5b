"""`incremental_type: files`: each file is loaded once. Checklist S24, S25, B25, B26."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster.engine import WindowSession
from logdriven_dagster.execution.events import WindowFailed
from tests.execution.conftest import World
from tests.execution.crashes import crash, kill
from tests.slices.conftest import noon

DONE, FAILED = "SUCCESS", "FAILURE"


class Inbox(World):
    """A table `ods.lines` that is loaded from the files of a folder."""

    def __init__(self, root: Path, spark: Any) -> None:
        self.root, self.spark = root, spark
        self.write("logdriven.yaml", "project: inbox")
        (root / "in").mkdir()
        self.table()

    def table(self, *more: dict[str, Any], source: dict[str, Any] | None = None, **fields: Any):
        origin = {"type": "csv", "path": "in/*.csv", "header": True, "columns": "v STRING"}
        step = {"step": "load", "source": {**origin, **(source or {})}}
        steps = [{**step, "target": {"type": "iceberg"}}, *more]
        values = {"table": "ods.lines", "incremental_type": "files", "period": "1 day"}
        self.write("tables/lines.yaml", yaml.safe_dump({**values, "steps": steps, **fields}))

    def put(self, name: str, *lines: str) -> None:
        """Write a file, always with a new time of modification."""
        self.write(f"in/{name}", "\n".join(["v", *lines]))
        self.puts = getattr(self, "puts", 0) + 1
        os.utime(self.root / "in" / name, (1_000_000 + self.puts, 1_000_000 + self.puts))

    def run(self, day: int) -> list[Any]:
        return self.catch_up(now=noon(day))

    def values(self) -> list[str]:
        return [row[0] for row in self.rows("ods.lines")]

    def attempts(self) -> list[tuple[str, str | None]]:
        """Status and files of each attempt."""
        return [(row["status"], row["current_file"]) for row in self.log()]

    def names(self) -> list[str]:
        """What is left in the folder."""
        return sorted(path.name for path in (self.root / "in").iterdir())


@pytest.fixture
def inbox(tmp_path: Path, spark: Any) -> Inbox:
    return Inbox(tmp_path, spark)


def test_new_files_are_loaded_once_and_named_in_the_log_s24(inbox: Inbox):
    inbox.put("a.csv", "1")
    inbox.put("b.csv", "2")
    inbox.run(1)
    inbox.put("c.csv", "3")
    inbox.run(2)
    assert inbox.attempts() == [(DONE, "a.csv,b.csv"), (DONE, "c.csv")]
    assert inbox.values() == ["1", "2", "3"]


def test_without_a_new_file_nothing_runs_and_that_is_a_success_s25(inbox: Inbox):
    inbox.table({"step": "more", "sql": "SELECT 1 AS n", "target": {"type": "parquet"}})
    inbox.put("a.csv", "1")
    for day in (1, 2, 3):
        inbox.run(day)
    assert inbox.attempts() == [(DONE, "a.csv"), (DONE, None), (DONE, None)]
    assert [s["status"] for s in inbox.log()[1]["steps"]] == ["SKIPPED", "SKIPPED"]


def test_an_empty_look_leaves_the_watermark_where_it_was(inbox: Inbox):
    def watermark(day: int) -> object:
        return inbox.runner.plan(noon(day), ["ods.lines"]).tables["ods.lines"].watermark

    inbox.put("a.csv", "1")
    inbox.run(1)
    loaded = watermark(2)
    assert loaded
    for day in (2, 3):
        inbox.run(day)
        assert watermark(day) == loaded


def test_on_empty_fail_s25(inbox: Inbox):
    inbox.table(source={"on_empty": "fail"})
    (failure,) = [e for e in inbox.run(1) if isinstance(e, WindowFailed)]
    assert "there are no new files in in/*.csv" in failure.error
    inbox.put("a.csv", "1")
    inbox.run(1)
    assert inbox.attempts() == [(FAILED, None), (DONE, "a.csv")]
    assert inbox.values() == ["1"]


@pytest.mark.usefixtures("long")
def test_on_empty_succeed_runs_the_steps_without_rows_s25(inbox: Inbox):
    inbox.table(
        {"step": "tally", "sql": "SELECT count(*) AS n FROM load", "target": {"type": "parquet"}},
        source={"on_empty": "succeed"},
    )
    inbox.run(1)
    assert inbox.rows("ods.lines") == [(0,)]
    inbox.put("a.csv", "x")
    inbox.run(2)
    assert inbox.rows("ods.lines") == [(1,)]


def test_a_known_path_with_new_content_is_a_new_version_b25(inbox: Inbox):
    inbox.put("a.csv", "1")
    inbox.run(1)
    inbox.put("a.csv", "2")
    inbox.run(2)
    inbox.run(3)
    assert inbox.values() == ["1", "2"]
    assert inbox.attempts() == [(DONE, "a.csv"), (DONE, "a.csv"), (DONE, None)]


def test_with_hashes_only_the_content_counts(inbox: Inbox):
    inbox.table(source={"detect_changes_by": "hash"})
    inbox.put("a.csv", "1")
    inbox.run(1)
    inbox.put("a.csv", "1")
    inbox.run(2)
    assert inbox.values() == ["1"]
    inbox.put("a.csv", "2")
    inbox.run(3)
    assert inbox.values() == ["1", "2"]


def test_files_are_deleted_only_after_success_s24(inbox: Inbox):
    check = {"check": "small", "sql": "SELECT 1 FROM load WHERE v > 1"}
    inbox.table(source={"after_success": "delete"}, checks=[check])
    inbox.put("a.csv", "2")
    inbox.run(1)
    assert inbox.names() == ["a.csv"]
    inbox.table(source={"after_success": "delete"})
    inbox.run(1)
    assert inbox.names() == []
    assert inbox.attempts() == [(FAILED, None), (DONE, "a.csv")]
    assert inbox.values() == ["2"]


def test_moved_files_keep_apart_in_their_folder(inbox: Inbox):
    inbox.table(source={"after_success": "move", "move_to": "done"})
    for day in (1, 2):
        inbox.put("a.csv", str(day))
        inbox.run(day)
    assert inbox.names() == []
    assert sorted(path.name for path in (inbox.root / "done").iterdir()) == ["a-1.csv", "a.csv"]
    assert inbox.values() == ["1", "2"]


def test_what_a_dead_runner_left_in_place_is_removed_by_the_next_look(inbox: Inbox, monkeypatch):
    from logdriven_dagster.engine.sources.files import arrivals

    inbox.table(source={"after_success": "delete"})
    inbox.put("a.csv", "1")
    with monkeypatch.context() as patch:
        patch.setattr(arrivals, "settle", lambda *_: None)
        inbox.run(1)
    assert inbox.names() == ["a.csv"]
    inbox.run(2)
    assert inbox.names() == []
    assert inbox.values() == ["1"]


def test_a_file_that_is_replaced_while_it_is_read_is_read_again_as_a_whole(inbox: Inbox):
    inbox.table(
        {"step": "slow", "python": "slow.py:replace", "target": {"type": "parquet"}}, retries=1
    )
    inbox.write(
        "tables/slow.py",
        f"""
        import pathlib

        def replace(spark):
            path = pathlib.Path({str(inbox.root / "in" / "a.csv")!r})
            if "old" in path.read_text():
                path.write_text("v\\nnew\\nnewer\\n")
            return spark.sql("SELECT 1 AS one")
        """,
    )
    inbox.put("a.csv", "old")
    inbox.run(1)
    inbox.run(2)
    rows = inbox.spark.read.parquet  # the first step's target is what is asked here
    assert rows
    assert inbox.attempts()[0] == (DONE, "a.csv")
    assert inbox.log()[0]["error_count"] == 1
    assert inbox.log()[0]["steps"][0]["target_count"] == 2
    assert inbox.attempts()[1:] == [(DONE, None)]


@pytest.mark.usefixtures("long")
def test_a_file_replaced_between_two_attempts_is_loaded_once_in_its_new_version(inbox: Inbox):
    inbox.table(checks=[{"check": "none", "sql": "SELECT 1 FROM load"}])
    inbox.put("a.csv", "old")
    inbox.run(1)
    inbox.put("a.csv", "new")
    inbox.put("b.csv", "2")
    inbox.table()
    for day in (1, 2, 3):
        inbox.run(day)
    assert inbox.values() == ["2", "new"]
    assert inbox.attempts() == [(FAILED, None), (DONE, "a.csv"), (DONE, "b.csv"), (DONE, None)]


def test_a_registered_file_that_is_gone_stops_the_table_loudly(inbox: Inbox):
    inbox.table(checks=[{"check": "none", "sql": "SELECT 1 FROM load"}])
    inbox.put("a.csv", "1")
    inbox.run(1)
    inbox.table()
    (inbox.root / "in" / "a.csv").unlink()
    (failure,) = [e for e in inbox.run(1) if isinstance(e, WindowFailed)]
    assert "a.csv was registered, but does not exist any more; put it back" in failure.error


def test_max_batches_limits_the_files_of_a_window(inbox: Inbox):
    inbox.table(max_batches=2)
    for n in range(5):
        inbox.put(f"{n}.csv", str(n))
    inbox.run(1)
    assert [files for _, files in inbox.attempts()] == ["0.csv,1.csv", "2.csv,3.csv", "4.csv"]
    assert inbox.values() == ["0", "1", "2", "3", "4"]


def test_hidden_files_are_ignored_and_folders_are_searched(inbox: Inbox):
    inbox.table(source={"path": "in"})
    inbox.put("a.csv", "1")
    inbox.put("_SUCCESS", "2")
    inbox.put(".hidden.csv", "3")
    inbox.put("sub/b.csv", "4")
    inbox.put("_temporary/c.csv", "5")
    inbox.run(1)
    assert inbox.values() == ["1", "4"]


def test_names_are_taken_literally(inbox: Inbox):
    names = ["a [1].csv", "b{x,y}.csv", "c 100%.csv", "d'ü.csv", "e#f.csv"]
    for n, name in enumerate(names):
        inbox.put(name, str(n))
    inbox.run(1)
    assert inbox.values() == ["0", "1", "2", "3", "4"]
    assert inbox.attempts() == [(DONE, ",".join(names))]


def test_a_folder_that_does_not_exist_is_a_failure(inbox: Inbox):
    inbox.table(source={"path": "nowhere"})
    (failure,) = [e for e in inbox.run(1) if isinstance(e, WindowFailed)]
    assert "nowhere does not exist" in failure.error


def test_other_file_systems_can_be_listed(inbox: Inbox):
    from fsspec.implementations.memory import MemoryFileSystem

    from logdriven_dagster.config import load_project
    from logdriven_dagster.config.models.incremental.batches import get_file_source
    from logdriven_dagster.engine.sources.files.arrivals import arrivals
    from logdriven_dagster.model.runs import WindowRun
    from tests.builders import day

    memory = MemoryFileSystem()
    memory.pipe("/bucket/x.csv", b"v\n1\n")
    inbox.table(source={"path": "memory://bucket/*.csv"})
    project = load_project(inbox.root)
    source = get_file_source(project.table("ods.lines"))
    (found,) = arrivals(project, source, WindowRun(1, "ods.lines", day(1), 1))
    assert (found.server, found.location, found.size) == ("memory://", "memory:///bucket/x.csv", 4)


def test_a_refreshed_window_reads_its_files_again(inbox: Inbox):
    inbox.put("a.csv", "1")
    inbox.run(1)
    inbox.put("b.csv", "2")
    inbox.run(2)
    inbox.table(source={"columns": "v INT"})
    inbox.table()
    (first,) = inbox.runner.slices("ods.lines", ["0"])
    list(inbox.runner.refresh_windows("ods.lines", [first], noon(2)))
    assert inbox.attempts()[-1] == (DONE, "a.csv")
    assert inbox.values() == ["1", "2"]


def test_what_a_dead_attempt_staged_of_a_file_that_was_replaced_since_is_not_used(
    inbox: Inbox, monkeypatch
):
    inbox.put("a.csv", "old")
    with monkeypatch.context() as dying:
        dying.setattr(WindowSession, "publish", lambda *_: kill())
        crash(inbox, dying, "ods.lines")
    inbox.put("a.csv", "new")
    inbox.run(6)
    inbox.run(7)
    assert inbox.values() == ["new"]
    assert [status for status, _ in inbox.attempts()][:2] == [FAILED, DONE]


def test_an_audit_counts_the_rows_of_loaded_files_and_of_those_to_come(inbox: Inbox):
    inbox.put("a.csv", "one", "two")
    inbox.run(1)
    inbox.put("b.csv", "three")
    (rows,) = inbox.runner.audit("ods.lines", noon(2))
    assert (rows.total, rows.done, rows.pending, rows.lost) == (3, 2, 1, 0)
    inbox.run(2)
    (rows,) = inbox.runner.audit("ods.lines", noon(3))
    assert (rows.total, rows.done, rows.pending, rows.lost) == (3, 3, 0, 0)
    (inbox.root / "in/a.csv").unlink()  # the files that are there do not hold what was read
    (rows,) = inbox.runner.audit("ods.lines", noon(3))
    assert (rows.total, rows.done, rows.read, rows.gone) == (1, 1, None, 0)
