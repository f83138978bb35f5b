"""`logdriven show`: rows in the terminal, and how many each window wrote."""

import json
import subprocess

import pyarrow as pa
import pytest

from logdriven_dagster.cli.shown import rows
from tests.builders import UTC, day
from tests.cli.program import PROGRAM
from tests.cli.shop_log import ShopLog

PLAIN = """
table: ods.plain
period: 1 day
default_start: 2022-01-01
steps:
  - step: load
    sql: SELECT 1 AS one
    target: {type: parquet}
"""


@pytest.fixture
def plain(shop):
    """A table of which a window has rows in a Parquet file, as its target would publish them."""
    (shop / "tables/plain.yaml").write_text(PLAIN)
    return shop


def test_a_table_shows_names_types_and_values(capsys):
    rows.print_rows(pa.table({"id": [1, 2], "name": ["a", None]}), UTC, 10)
    out = capsys.readouterr().out.splitlines()
    assert [line.split() for line in out if line.strip() and "─" not in line] == [
        ["id", "name"],
        ["bigint", "string"],
        ["1", "a"],
        ["2", "NULL"],
    ]


def test_rows_that_are_too_wide_stand_below_each_other(capsys):
    wide = pa.table({f"column_{n}": ["some text"] for n in range(20)})
    rows.print_rows(wide, UTC, 10)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "row 1"
    assert lines[1].split() == ["column_0", "string", "some", "text"]
    assert len(lines) == 21


def test_more_rows_than_the_limit_are_reported(capsys):
    rows.print_rows(pa.table({"id": [1, 2, 3]}), UTC, 2)
    assert "There are more rows; show more with --limit 20." in capsys.readouterr().out


def test_values_steer_no_terminal(capsys):
    rows.print_rows(pa.table({"v": ["\x1b[31mred\r\n"]}), UTC, 10)
    assert "\x1b" not in capsys.readouterr().out


def test_json_holds_every_value_exactly(capsys):
    from datetime import datetime, timezone
    from decimal import Decimal

    instant = datetime(2022, 1, 1, 12, tzinfo=timezone.utc)
    read = pa.table(
        {
            "money": pa.array([Decimal("1.50")]),
            "at": pa.array([instant], pa.timestamp("us", "UTC")),
            "nan": [float("nan")],
            "nested": [{"a": [1, None]}],
            "bytes": [b"\x00\xff"],
            "long": [2**62],
        }
    )
    rows.print_rows_as_json(read, UTC)
    assert json.loads(capsys.readouterr().out) == [
        {
            "money": "1.50",
            "at": "2022-01-01T12:00:00+00:00",
            "nan": "NaN",
            "nested": {"a": [1, None]},
            "bytes": "0x00ff",
            "long": 2**62,
        }
    ]


def test_an_hour_that_exists_twice_is_distinguished(capsys):
    from datetime import datetime, timezone
    from zoneinfo import ZoneInfo

    instants = [datetime(2026, 10, 25, hour, 30, tzinfo=timezone.utc) for hour in (0, 1, 2)]
    read = pa.table({"at": pa.array(instants, pa.timestamp("us", "UTC"))})
    rows.print_rows(read, ZoneInfo("Europe/Berlin"), 10)
    out = capsys.readouterr().out
    assert "02:30:00+02:00" in out
    assert "02:30:00+01:00" in out
    assert "03:30:00 " in out


def test_a_window_is_named_by_its_start(shop, logdriven):
    result = logdriven("show", "ods.orders", "--window", "2022-01-01 06:00")
    assert result.code == 2
    assert "no window of ods.orders starts at this" in result.err


def test_a_table_that_was_never_published_has_no_rows_to_show(plain, logdriven):
    result = logdriven("show", "ods.plain")
    assert (result.code, result.out) == (1, "")
    assert "ods.plain was never published, so it cannot be read" in result.err


@pytest.mark.usefixtures("long")
def test_spark_is_neither_started_nor_loaded(spark_processes, shop):
    """The rows that the shop's own Spark has written are shown by a process that knows none."""
    subprocess.run(
        [*PROGRAM, "run", "ods.customers", "--json"], cwd=shop, check=True, capture_output=True
    )
    shown = subprocess.run(
        [*PROGRAM, "show", "ods.customers", "--json", "--limit", "2"],
        cwd=shop,
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": "/nowhere", "JAVA_HOME": "/nowhere"},
    )
    assert len(json.loads(shown.stdout)) == 2


def test_counts_are_drawn_by_window_with_what_failed_and_what_is_missing(shop, logdriven):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.fail("ods.orders", day(2), "bad line 7")
    out = logdriven("show", "ods.orders", "--counts", "--now", "2022-01-04").out
    lines = [line.split() for line in out.splitlines() if line.startswith(" [") or "[20" in line]
    assert [line[2] for line in lines] == ["SUCCESS", "FAILURE", "missing"]
    assert lines[0][3:] == ["24", "█" * 50]
    assert lines[1][3:] == ["–"]


def test_counts_as_json(shop, logdriven):
    ShopLog(shop).succeed("ods.orders", day(1))
    found = logdriven("show", "ods.orders", "--counts", "--json", "--now", "2022-01-03").json
    assert [(item["status"], item["rows"]) for item in found] == [("SUCCESS", 24), (None, None)]


def test_counts_take_the_newest_windows(shop, logdriven):
    log = ShopLog(shop)
    for n in (1, 2, 3):
        log.succeed("ods.orders", day(n))
    newest = ("--counts", "--limit", "2", "--now", "2022-01-04")
    found = logdriven("show", "ods.orders", *newest, "--json").json
    assert [item["data_range_start"][:10] for item in found] == ["2022-01-02", "2022-01-03"]


def test_counts_go_with_no_query(shop, logdriven):
    assert logdriven("show", "ods.orders", "--counts", "--sql", "SELECT 1").code == 2
