"""`logdriven plan` and `logdriven status`: what scripts and people read."""

import pytest

from tests.builders import day
from tests.cli.shop_log import ShopLog

NOON = ("--now", "2022-01-04T12:00")


def test_plan_json_lists_pending_windows_in_running_order(shop, logdriven):
    plan = logdriven("plan", "--json", *NOON).json
    assert [(w["table"], w["data_range_end"][:10], w["state"]) for w in plan] == [
        ("ods.orders", "2022-01-02", "ready"),
        ("ods.orders", "2022-01-03", "blocked"),
        ("ods.customers", "2022-01-04", "ready"),
        ("ods.orders", "2022-01-04", "blocked"),
        ("dws.daily_sales", "2022-01-02", "blocked"),
        ("dws.daily_sales", "2022-01-03", "blocked"),
        ("dws.daily_sales", "2022-01-04", "blocked"),
    ]
    assert plan[1] == {
        "table": "ods.orders",
        "data_range_start": "2022-01-02T00:00:00+00:00",
        "data_range_end": "2022-01-03T00:00:00+00:00",
        "state": "blocked",
        "reason": "waits for [2022-01-01, 2022-01-02): has not run",
    }


def test_a_plan_with_nothing_pending_is_an_empty_list(shop, logdriven):
    assert logdriven("plan", "--json", "--now", "2022-01-01").json == []


def test_times_carry_the_offset_of_the_projects_zone(shop, logdriven):
    project = shop / "logdriven.yaml"
    project.write_text(project.read_text().replace("UTC", "America/New_York"))
    first = logdriven("plan", "ods.orders", "--json", "--now", "20220102000000").json
    assert [w["data_range_start"] for w in first] == ["2022-01-01T00:00:00-05:00"]


def test_plan_shows_one_line_per_table(shop, logdriven):
    ShopLog(shop).fail("ods.orders", day(1), "bad line 7\nmore")
    lines = {line.split()[0]: line.split() for line in _body(logdriven("plan", *NOON).out)}
    assert lines["ods.customers"][1:3] == ["2022-01-01", "1"]
    assert lines["ods.orders"] == [
        *("ods.orders", "2022-01-01", "3", "[2022-01-01,", "2022-01-02)", "ready"),
        *("FAILURE", "in", "job", "1:", "bad", "line", "7"),
    ]


def test_a_plan_shows_the_first_line_of_an_error_and_where_the_rest_is(shop, logdriven):
    ShopLog(shop).fail("ods.orders", day(1), "unknown column b\n\n" + "Spark's text " * 300)
    for command in (("plan", "--all"), ("plan",), ("status",)):
        out = logdriven(*command, *NOON).out
        assert "Spark's text" not in out
        assert "Show the whole errors with: logdriven log ods.orders --full" in out.splitlines()


def test_a_table_without_pending_windows_is_up_to_date(shop, logdriven):
    out = logdriven("plan", "ods.orders", "--now", "2022-01-01").out
    assert "up to date" in out


def test_all_shows_every_window_and_limit_the_first_ones(shop, logdriven):
    assert len(_body(logdriven("plan", "ods.orders", "--all", *NOON).out)) == 3
    assert len(_body(logdriven("plan", "ods.orders", "--limit", 2, *NOON).out)) == 2
    assert len(logdriven("plan", "--json", "--limit", 2, *NOON).json) == 2


def test_status_json_counts_what_is_pending_failed_and_running(shop, logdriven):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.fail("ods.orders", day(2), "bad line")
    log.start("ods.customers", day(3))
    status = logdriven("status", "--json", *NOON).json["tables"]
    assert status[:2] == [
        {
            "table": "ods.customers",
            "watermark": "2022-01-01T00:00:00+00:00",
            "pending": 1,
            "failed": 0,
            "running": 1,
            "last_status": "RUNNING",
            "parts": [],
            "skipped": [],
            "failed_refreshes": [],
            "changed_target": None,
            "made_without": [],
            "freshness": None,
            "old_windows": None,
            "source_changes": [],
        },
        {
            "table": "ods.orders",
            "watermark": "2022-01-02T00:00:00+00:00",
            "pending": 2,
            "failed": 1,
            "running": 0,
            "last_status": "FAILURE",
            "parts": [],
            "skipped": [],
            "failed_refreshes": [],
            "changed_target": None,
            "made_without": [],
            "freshness": None,
            "old_windows": None,
            "source_changes": [],
        },
    ]
    assert status[2]["last_status"] is None


def test_status_shows_a_table_per_line(shop, logdriven):
    ShopLog(shop).succeed("ods.orders", day(1))
    line = next(x for x in logdriven("status", *NOON).out.splitlines() if "ods.orders" in x)
    assert line.split() == ["ods.orders", "2022-01-02", "2", "0", "0", "SUCCESS"]


def test_a_window_set_to_failure_by_hand_is_planned_first(shop, logdriven):
    import sqlite3

    log = ShopLog(shop)
    for n in (1, 2, 3):
        log.succeed("ods.orders", day(n))
    with sqlite3.connect(shop / ".logdriven/run_log.db") as client:
        client.execute(
            "UPDATE job_log SET status = 'FAILURE' WHERE data_range_start LIKE '202201010%'"
        )
    client.close()
    plan = logdriven("plan", "ods.orders", "--json", *NOON).json
    assert [w["data_range_start"][:10] for w in plan] == ["2022-01-01"]


def _body(out: str) -> list[str]:
    lines = [line for line in out.splitlines() if line.strip()]
    return lines[2:]


def test_a_failed_refresh_is_reported_below_the_tables_and_holds_nothing_up_s08(shop, logdriven):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.fail_refresh("ods.orders", day(1), "no such file")
    told = "ods.orders [2022-01-01, 2022-01-02): its refresh, job 2, did not succeed: no such file"
    for command in ("plan", "status"):
        out = logdriven(command, *NOON).out
        assert told in out
        assert "2022-01-02" in next(line for line in out.splitlines() if "ods.orders" in line)
    [row] = logdriven("status", "ods.orders", "--json", *NOON).json["tables"]
    assert (row["failed"], row["pending"], row["last_status"]) == (0, 2, "FAILURE")
    [failed] = row["failed_refreshes"]
    assert (failed["job_id"], failed["error"]) == (2, "no such file")


def test_a_refresh_that_died_is_reported_below_the_tables_s08(shop, logdriven):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.die_in_refresh("ods.orders", day(1))
    told = "ods.orders [2022-01-01, 2022-01-02): its refresh, job 2, ended without changes"
    for command in ("plan", "status"):
        out = " ".join(logdriven(command, *NOON).out.split())
        assert f"{told}: its lease ran out; the table is unchanged" in out


def _fresh_orders(shop):
    file = shop / "tables/ods/orders.yaml"
    file.write_text(file.read_text() + "\nfreshness: {within: 2 h}\n")


def test_status_shows_which_tables_are_late_and_by_which_window(shop, logdriven):
    _fresh_orders(shop)
    ShopLog(shop).fail("ods.orders", day(1), "bad line 7")
    out = logdriven("status", *NOON).out
    lines = [line.strip() for line in out.splitlines()]
    assert any(
        each.startswith("ods.orders ") and each.endswith("late, 58 h 00 min") for each in lines
    )
    assert any(each.startswith("ods.customers ") and each.endswith("–") for each in lines)
    assert (
        "ods.orders is late: [2022-01-01, 2022-01-02) should have finished by 2022-01-02 02:00; "
        "FAILURE in job 1"
    ) in out.splitlines()


def test_status_json_shows_the_basis_of_freshness(shop, logdriven):
    _fresh_orders(shop)
    found = {
        t["table"]: t["freshness"] for t in logdriven("status", "--json", *NOON).json["tables"]
    }
    assert found["ods.customers"] is None
    assert found["ods.orders"] == {
        "verdict": "late",
        "within_seconds": 7200,
        "data_range_start": "2022-01-01T00:00:00+00:00",
        "data_range_end": "2022-01-02T00:00:00+00:00",
        "due": "2022-01-02T02:00:00+00:00",
        "overdue_seconds": 208800,
        "reason": "has not run",
    }


def test_commands_take_selections_of_tables(shop, logdriven):
    def find_tables(command, *selections):
        found = logdriven(command, "--json", *NOON, *selections).json
        rows = found["tables"] if command == "status" else found
        return {row["table"] for row in rows}

    for command in ("plan", "status"):
        found = find_tables(command, "ods.*", "dws.daily_sales", "--exclude", "ods.customers")
        assert found == {"ods.orders", "dws.daily_sales"}
        assert find_tables(command, "ods.orders+") == {"ods.orders", "dws.daily_sales"}
    refused = logdriven("plan", "+ods.order", *NOON)
    assert refused.code == 2
    assert "did you mean 'ods.orders'?" in refused.err


def test_plan_status_and_validate_show_the_parts_that_a_changed_zone_leaves(shop, logdriven):
    for n in (1, 2, 3):
        ShopLog(shop).succeed("ods.orders", day(n))
    for command in ("plan", "status"):
        assert "do not match" not in logdriven(command, *NOON).out
    project = shop / "logdriven.yaml"
    project.write_text(project.read_text().replace("UTC", "Europe/Berlin"))
    now = ("--now", "2022-01-05")
    for command in ("plan", "status", "validate"):
        said = " ".join(logdriven(command, *now).out.split())
        assert "ods.orders: its windows of 1 day from 2022-01-01 in Europe/Berlin" in said
        assert "[2022-01-01, 2022-01-01 01:00), [2022-01-04 01:00, 2022-01-05)" in said
    assert "effects" not in logdriven("validate", "--json", "--now", "2022-01-01").json
    (effect,) = logdriven("validate", "--json", *now).json["effects"]
    assert effect.startswith("ods.orders: its windows of 1 day")
    orders = next(
        row
        for row in logdriven("status", "--json", *now).json["tables"]
        if row["table"] == "ods.orders"
    )
    assert [part["data_range_start"] for part in orders["parts"]] == [
        "2022-01-01T00:00:00+01:00",
        "2022-01-04T01:00:00+01:00",
    ]


@pytest.mark.usefixtures("slow")
def test_skipped_windows_are_shown_with_who_and_why_until_they_are_unskipped(shop, logdriven):
    table = logdriven("status", "--json").json["tables"][0]["table"]
    given = (table, "--window", "2022-01-02", "--operator", "ann")
    empty = logdriven("skip", *given, "--reason", " ")
    assert empty.code == 2
    assert "the reason must not be empty" in empty.err
    backwards = logdriven("skip", *given, "--to", "2022-01-01", "--reason", "the file is lost")
    assert backwards.code == 2
    assert "must be later than --window" in backwards.err
    answer = logdriven("skip", *given, "--reason", "the file is lost")
    assert answer.out == f"SKIPPED  {table} [2022-01-02, 2022-01-03)\n"
    assert f"{table} [2022-01-02, 2022-01-03): skipped by ann: the file is lost" in " ".join(
        logdriven("status").out.split()
    )
    row = logdriven("status", "--json").json["tables"][0]
    assert [item["reason"] for item in row["skipped"]] == ["skipped by ann: the file is lost"]
    assert "skipped by ann" in logdriven("log", table).out
    assert logdriven("unskip", *given).code == 0
    log = logdriven("log", table, "--json").out
    assert "unskipped by ann: no reason given" in log
    assert logdriven("unskip", *given).code == 2
    assert logdriven("status", "--json").json["tables"][0]["skipped"] == []


def test_validate_names_tables_whose_first_window_ends_after_their_end(null_project, logdriven):
    (null_project / "logdriven.yaml").write_text(
        "project: p\ntimezone: UTC\ndefaults: {default_start: 2022-01-03, end: 2022-01-06}\n"
    )
    for name, period in {"daily": "1 day", "weekly": "1 week"}.items():
        (null_project / f"tables/{name}.yaml").write_text(
            f"""
            table: dws.{name}
            period: {period}
            steps:
              - {{step: load, sql: SELECT 1 AS n, target: {{type: iceberg}}}}
            """
        )
    text = (
        "dws.weekly: the first window, [2022-01-03, 2022-01-10), ends after `end`, so no window "
        "runs; set a later end for the table"
    )
    assert logdriven("validate", "--json").json["effects"] == [text]
    assert text in logdriven("validate").out
