"""Windows that wait for their files (`missing_files: wait`)."""

from pathlib import Path

import pytest

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.sources.files import arrivals
from logdriven_dagster.errors import DependencyError
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.plan import State
from logdriven_dagster.testing import NullEngine, Sandbox
from tests.builders import at, day

NOW = "2022-01-04"
EVENTS = """
    table: ods.events
    period: {period}
    default_start: 2022-01-01
    ordered: {ordered}
    steps:
      - step: load
        source:
          type: csv
          path: in/${{DATA_RANGE:{days}}}
          missing_files: wait
        target: {{type: iceberg}}
"""
TOTALS = """
    table: dws.totals
    period: 1 day
    default_start: 2022-01-01
    depends_on: [ods.events]
    steps: [{step: add, sql: SELECT 1 AS one FROM ods.events, target: {type: iceberg}}]
"""


def sandbox_of(folder: Path, *, ordered: bool = True, **fields: str) -> Sandbox:
    values = {"period": "1 day", "days": "yyyy-MM-dd", "ordered": str(ordered).lower()}
    sandbox = Sandbox(folder, engine=NullEngine())
    sandbox.write("tables/events.yaml", EVENTS.format(**values | fields))
    sandbox.write("tables/totals.yaml", TOTALS)
    return sandbox


def add_file(sandbox: Sandbox, name: str) -> None:
    sandbox.write(f"in/{name}/part.csv", "n\n1")


def succeeded(sandbox: Sandbox, now: str = NOW) -> list[TimeWindow]:
    events = sandbox.run("ods.events", now=now)
    return [event.attempt.window for event in events if isinstance(event, WindowSucceeded)]


def states(sandbox: Sandbox) -> list[tuple[State, str]]:
    windows = sandbox.runner.plan(at(NOW), ["ods.events"]).windows()
    return [(planned.state, planned.reason) for planned in windows]


def test_a_window_waits_for_its_file_and_those_after_it_wait_for_the_window(tmp_path: Path):
    sandbox = sandbox_of(tmp_path)
    for name in ("2022-01-01", "2022-01-03"):
        add_file(sandbox, name)
    assert succeeded(sandbox) == [day(1)]
    (state, reason), (behind, _) = states(sandbox)
    assert (state, behind) == (State.BLOCKED, State.BLOCKED)
    assert reason.startswith("waits for files: there are none in ")
    assert reason.endswith("in/2022-01-02")
    add_file(sandbox, "2022-01-02")
    assert succeeded(sandbox) == [day(2), day(3)]


def test_an_unordered_table_does_not_wait_for_the_missing_day(tmp_path: Path):
    sandbox = sandbox_of(tmp_path, ordered=False)
    for name in ("2022-01-01", "2022-01-03"):
        add_file(sandbox, name)
    assert succeeded(sandbox) == [day(1), day(3)]


def test_a_window_over_several_folders_waits_for_all_of_them(tmp_path: Path):
    sandbox = sandbox_of(tmp_path, days="yyyy-MM-dd/HH")
    for hour in range(23):
        add_file(sandbox, f"2022-01-01/{hour:02}")
    assert states(sandbox)[0][1].endswith("in/2022-01-01/23")
    assert succeeded(sandbox) == []
    add_file(sandbox, "2022-01-01/23")
    assert succeeded(sandbox) == [day(1)]


def test_an_unfinished_file_of_a_writer_is_no_file(tmp_path: Path):
    sandbox = sandbox_of(tmp_path)
    sandbox.write("in/2022-01-01/_temporary/part.csv", "n\n1")
    assert succeeded(sandbox) == []


def test_nothing_is_recorded_for_a_window_that_waits(tmp_path: Path):
    sandbox = sandbox_of(tmp_path)
    assert sandbox.run(now=NOW) == []
    assert sandbox.log("ods.events") == []


def test_a_refresh_of_a_window_without_files_is_refused_before_its_claim(tmp_path: Path):
    sandbox = sandbox_of(tmp_path)
    with pytest.raises(DependencyError, match="cannot run yet: it waits for files: there are none"):
        list(sandbox.runner.refresh_windows("ods.events", [day(1)], at(NOW)))
    assert sandbox.log("ods.events") == []


def test_a_place_that_cannot_be_listed_is_for_the_run_to_report(tmp_path: Path):
    sandbox = sandbox_of(tmp_path)
    text = (sandbox.folder / "tables/events.yaml").read_text()
    unknown = text.replace("path: in/", "path: nowhere://in/")
    (sandbox.folder / "tables/events.yaml").write_text(unknown)
    assert states(sandbox)[0][0] is State.READY


def test_braces_in_a_path_are_alternatives(tmp_path: Path):
    sandbox = sandbox_of(tmp_path)
    file = sandbox.folder / "tables/events.yaml"
    braces = file.read_text().replace("${DATA_RANGE:yyyy-MM-dd}", '{east,west}/"', 1)
    file.write_text(braces.replace("path: in/", 'path: "in/').replace('/"', '/*.csv"'))
    add_file(sandbox, "west")
    assert succeeded(sandbox) == [day(1), day(2), day(3)]


def test_a_run_looks_for_the_files_of_a_window_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sandbox = sandbox_of(tmp_path)
    for n in (1, 2, 3):
        add_file(sandbox, f"2022-01-0{n}")
    asked, has_files = list[str](), arrivals.has_files

    def look(project: Project, location: str) -> bool:
        asked.append(Path(location).name)
        return has_files(project, location)

    monkeypatch.setattr(arrivals, "has_files", look)
    assert succeeded(sandbox) == [day(1), day(2), day(3)]
    assert asked == ["2022-01-01", "2022-01-02", "2022-01-03"]
