"""`discard`, `clean` and `archive` as an operator uses them."""

import os
import time

from tests.builders import day
from tests.cli.shop_log import ShopLog


def test_discard_ends_what_runs_of_a_table(shop, logdriven):
    log = ShopLog(shop)
    log.start("ods.orders", day(1))
    done = logdriven("discard", "ods.orders")
    assert done.code == 0
    assert done.out.startswith("DISCARDED  ods.orders [2022-01-01, 2022-01-02)  job 1 of ")
    (row,) = logdriven("log", "--json").json
    assert (row["status"], row["steps"][0]["status"]) == ("DISCARDED", "DISCARDED")
    assert logdriven("plan", "ods.orders", "--json", "--now", "2022-01-04").code == 0


def test_discarding_an_attempt_that_does_not_run_names_the_command_to_use(shop, logdriven):
    done = logdriven("discard", "ods.orders", "--window", "2022-01-01")
    assert done.code == 2
    assert "ods.orders at 2022-01-01 00:00 is not running" in done.err
    assert "logdriven status ods.orders" in done.err


def test_clean_removes_what_a_dead_attempt_left_and_nothing_younger(shop, logdriven):
    data = shop / ".logdriven/warehouse/ods/orders/data"
    for name in ("7-load", "8-load"):
        (data / name).mkdir(parents=True)
        (data / name / "part-0.parquet").write_bytes(b"x" * 1000)
    old = time.time() - 7200
    for path in (data / "7-load/part-0.parquet", data / "7-load"):
        os.utime(path, (old, old))

    listed = logdriven("clean", "--dry-run", "--json").json
    assert (listed["removed"], listed["bytes"]) == (False, 1000)
    assert [item["location"] for item in listed["garbage"]] == [str(data / "7-load")]
    assert (data / "7-load").exists()

    assert logdriven("clean").out.splitlines()[-1] == "1 item, 0.0 MB, removed."
    assert sorted(path.name for path in data.iterdir()) == ["8-load"]


def test_clean_ends_attempts_whose_leases_are_over_k18(shop, logdriven):
    log = ShopLog(shop)
    log.start("ods.orders", day(1))
    log.sql("UPDATE job_log SET lease_expires_at = '2000-01-01 00:00:00.000000'")
    logdriven("clean")
    assert logdriven("log", "--json").json[0]["status"] == "FAILURE"


def test_archive_moves_old_attempts_and_makes_nothing_pending(shop, logdriven):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.sql("UPDATE job_log SET job_end_time = '2000-01-01 00:00:00.000000'")
    before = logdriven("plan", "--json", "--now", "2022-01-04").out
    assert logdriven("archive", "--older-than", "90 days").out.startswith("1 attempt moved")
    assert logdriven("log", "--json").json == []
    assert logdriven("plan", "--json", "--now", "2022-01-04").out == before


def test_ages_are_checked(shop, logdriven):
    assert "not a period" in logdriven("clean", "--older-than", "soon").err.replace("\n", " ")
    assert logdriven("archive", "--older-than", "1 hour").code == 2
