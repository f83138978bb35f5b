"""Times that come twice when clocks are set back: how they are shown, and how they are given."""

import textwrap
from pathlib import Path

import pytest

TABLE = """
    table: ods.q
    period: 1 hour
    default_start: {start}
    steps: [{{step: load, sql: SELECT 1 AS one, target: {{type: parquet}}}}]
"""


@pytest.fixture
def berlin(logdriven, tmp_path: Path, monkeypatch):
    def project(start: str = "2022-10-30") -> None:
        (tmp_path / "logdriven.yaml").write_text("project: p\ntimezone: Europe/Berlin\n")
        (tmp_path / "tables").mkdir(exist_ok=True)
        text = textwrap.dedent(TABLE).format(start=start)
        (tmp_path / "tables/q.yaml").write_text(text)
        monkeypatch.chdir(tmp_path)

    project()
    return project


def test_plan_and_status_show_the_two_hours_with_their_offsets(berlin, logdriven):
    now = ("--now", "2022-10-30T04:00:00")
    shown = logdriven("plan", "--all", *now).out
    assert "[2022-10-30 02:00+02:00, 2022-10-30 02:00+01:00)" in shown
    assert "[2022-10-30 02:00+01:00, 2022-10-30 03:00)" in shown
    plan = logdriven("plan", "--json", *now).json
    assert [window["data_range_start"] for window in plan][2:4] == [
        "2022-10-30T02:00:00+02:00",
        "2022-10-30T02:00:00+01:00",
    ]


@pytest.mark.parametrize(
    ("option", "command"),
    [
        ("--from", ("refresh", "ods.q", "--to", "2022-10-30T04:00:00", "--from")),
        ("--to", ("refresh", "ods.q", "--from", "2022-10-30T01:00:00", "--to")),
        ("--window", ("log", "ods.q", "--window")),
        ("--now", ("plan", "--now")),
    ],
)
@pytest.mark.parametrize("text", ["2022-10-30T02:00:00", "2022-10-30 02:30", "20221030020000"])
def test_a_time_that_comes_twice_is_refused_with_both_of_its_offsets(
    berlin, logdriven, option, command, text
):
    ended = logdriven(*command, text)
    said = " ".join(ended.err.replace("│", " ").split())
    minute = "30" if "30" in text[-3:] else "00"
    assert ended.code == 2
    assert f"2022-10-30 02:{minute} occurs twice in Europe/Berlin" in said
    assert f"2022-10-30T02:{minute}:00+02:00 or 2022-10-30T02:{minute}:00+01:00" in said
    assert option in said


@pytest.mark.parametrize(
    "text",
    ["2022-10-30T02:00:00+01:00", "20221030020000+0100", "2022-10-30 02:00+01:00", "2022-10-30"],
)
def test_a_time_with_an_offset_and_a_date_are_taken(berlin, logdriven, text):
    assert logdriven("plan", "--json", "--now", text).code == 0


def test_a_table_may_not_begin_at_a_time_that_comes_twice(berlin, logdriven):
    berlin("2022-10-30 02:00")
    ended = logdriven("validate")
    assert ended.code != 0
    assert "2022-10-30T02:00:00+02:00 or 2022-10-30T02:00:00+01:00" in " ".join(
        (ended.out + ended.err).split()
    )
    berlin("'2022-10-30 02:00+01:00'")
    first = logdriven("plan", "--json", "--now", "2022-10-30T03:00:00").json
    assert [window["data_range_start"] for window in first] == ["2022-10-30T02:00:00+01:00"]
