"""Restating: finished windows by older versions run again, oldest first, by `run`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

NOW = ("--now", "2022-01-04")
LATER = ("--now", "2022-01-05")


def write(folder: Path, name: str, sql: str, **fields: object) -> None:
    step = {"step": "load", "sql": sql, "target": {"type": "iceberg"}}
    table = {"table": name, "period": "1 day", "default_start": "2022-01-01", "steps": [step]}
    (folder / "tables" / f"{name}.yaml").write_text(json.dumps({**table, **fields}))


DAILY, OLD, NEW = "dws.daily", "SELECT id FROM t WHERE id > 1", "SELECT id FROM t WHERE id > 2"
BELOW = "ads.below"


@pytest.fixture
def folder(null_project: Path, logdriven: CommandLine) -> Path:
    """A project of two tables with three finished days each."""
    write(null_project, DAILY, OLD)
    write(null_project, BELOW, f"SELECT id FROM {DAILY}", depends_on=[DAILY])
    assert logdriven("run", *NOW).code == 0
    return null_project


def ran(result: object) -> list[str]:
    """The tables and days that a run made, in its order."""
    windows = result.json["windows"]  # type: ignore[attr-defined]
    return [f"{each['table']} {each['data_range_start'][8:10]}" for each in windows]


def pending(logdriven: CommandLine, *options: str) -> list[tuple[str, str, str]]:
    rows = logdriven("plan", "--json", "--all", *(options or NOW)).json
    return [(row["table"], row["data_range_start"][8:10], row["reason"]) for row in rows]


def test_finished_windows_stay_as_they_are_by_default(folder: Path, logdriven: CommandLine):
    write(folder, DAILY, NEW)
    assert pending(logdriven) == []
    assert ran(logdriven("run", "--json", *LATER)) == [f"{DAILY} 04", f"{BELOW} 04"]


def test_a_table_with_on_change_restate_runs_its_old_windows_again(
    folder: Path, logdriven: CommandLine
):
    write(folder, DAILY, NEW, on_change="restate")
    reason = "was made by version 1"
    assert pending(logdriven)[:3] == [(DAILY, f"0{n}", reason) for n in (1, 2, 3)]
    made = ran(logdriven("run", "--json", *NOW))
    assert [each for each in made if each.startswith(DAILY)] == [
        f"{DAILY} 01",
        f"{DAILY} 02",
        f"{DAILY} 03",
    ]
    assert sorted(each for each in made if each.startswith(BELOW)) == [
        f"{BELOW} 01",
        f"{BELOW} 02",
        f"{BELOW} 03",
    ]
    assert pending(logdriven) == []
    assert "by version" not in logdriven("status", *NOW).out


def test_a_cosmetic_change_restates_nothing(folder: Path, logdriven: CommandLine):
    write(folder, DAILY, OLD.lower(), on_change="restate", description="Daily.")
    assert pending(logdriven) == []


@pytest.mark.parametrize(
    ("limit", "days"),
    [({"from": "2022-01-02"}, ["02", "03"]), ({"last": "36 h"}, ["02", "03"])],
    ids=["from", "last"],
)
def test_only_windows_after_a_limit_are_restated(
    folder: Path, logdriven: CommandLine, limit: dict[str, str], days: list[str]
):
    write(folder, DAILY, NEW, on_change={"restate": limit})
    assert [day for _, day, _ in pending(logdriven)] == days


def test_windows_are_restated_in_passes(folder: Path, logdriven: CommandLine):
    write(folder, DAILY, NEW, on_change="restate", batch_size="all")
    result = logdriven("run", "--json", *NOW)
    assert len(ran(result)) == 6
    rows = logdriven("log", DAILY, "--json").json
    assert [row["run_trigger"] for row in rows[:3]] == ["restate"] * 3


def test_an_operator_restates_with_a_reason(folder: Path, logdriven: CommandLine):
    write(folder, DAILY, NEW)
    done = logdriven("restate", DAILY, "--reason", "threshold is 2", "--operator", "ann", *NOW)
    assert done.out == f"{DAILY}: 3 windows are pending again\nRun them with: logdriven run\n"
    reason = "was made by version 1; restated: threshold is 2 (ann)"
    assert pending(logdriven)[:1] == [(DAILY, "01", reason)]
    assert len(ran(logdriven("run", "--json", *NOW))) == 6
    assert pending(logdriven) == []


def test_a_restatement_continues_after_an_interruption(folder: Path, logdriven: CommandLine):
    write(folder, DAILY, NEW)
    assert logdriven("restate", DAILY, "--reason", "new", *NOW).code == 0
    logdriven("run", DAILY, "--max-windows", "1", *NOW)
    assert [day for name, day, _ in pending(logdriven) if name == DAILY] == ["02", "03"]
    assert "2 of 3 windows by version 1" in logdriven("status", *NOW).out


def test_only_a_range_is_restated(folder: Path, logdriven: CommandLine):
    write(folder, DAILY, NEW)
    span = ("--from", "2022-01-02", "--to", "2022-01-03")
    assert logdriven("restate", DAILY, *span, "--reason", "new", *NOW).code == 0
    assert [(name, day) for name, day, _ in pending(logdriven)] == [(DAILY, "02")]


def test_downstream_restates_tables_that_ignore_refreshed_upstreams(
    folder: Path, logdriven: CommandLine
):
    below = f"SELECT id FROM {DAILY}"
    write(folder, BELOW, below, depends_on=[DAILY], on_upstream_refresh="ignore")
    write(folder, DAILY, NEW)
    result = logdriven("restate", DAILY, "--downstream", "--reason", "new", "--json", *NOW)
    assert result.json == [{"table": DAILY, "windows": 3}, {"table": BELOW, "windows": 3}]
    assert len(ran(logdriven("run", "--json", *NOW))) == 6
    assert pending(logdriven) == []


def test_without_old_windows_nothing_is_restated(folder: Path, logdriven: CommandLine):
    refused = logdriven("restate", DAILY, "--reason", "new", *NOW)
    assert refused.code == 2
    assert "has no finished window by an older version" in refused.err
    assert logdriven("restate", DAILY, "--reason", " ", *NOW).code == 2


def test_a_request_is_done_with_its_windows_and_leaves_later_versions_alone(
    folder: Path, logdriven: CommandLine
):
    write(folder, DAILY, NEW)
    assert logdriven("restate", DAILY, "--reason", "new", *NOW).code == 0
    assert logdriven("run", *NOW).code == 0
    write(folder, DAILY, NEW.replace("2", "3"))
    assert logdriven("apply").code == 0
    assert pending(logdriven) == []
    assert "3 of 3 windows by version 2 (3: changed filter)" in logdriven("status", *NOW).out


def test_a_rename_and_forgetting_take_requests_along(folder: Path, logdriven: CommandLine):
    write(folder, DAILY, NEW)
    assert logdriven("restate", DAILY, "--reason", "new", *NOW).code == 0
    (folder / "tables" / f"{DAILY}.yaml").unlink()
    write(folder, BELOW, "SELECT id FROM dws.daily2", depends_on=["dws.daily2"])
    write(folder, "dws.daily2", NEW, renamed_from=DAILY)
    assert logdriven("apply").code == 0
    assert [day for name, day, _ in pending(logdriven) if name == "dws.daily2"] == [
        "01",
        "02",
        "03",
    ]


@pytest.mark.parametrize("value", ["never", {"restate": {}}, {"restate": {"from": 1, "last": 2}}])
def test_other_values_of_on_change_are_refused(folder: Path, logdriven: CommandLine, value: object):
    write(folder, DAILY, NEW, on_change=value)
    assert "on_change" in logdriven("validate").err
