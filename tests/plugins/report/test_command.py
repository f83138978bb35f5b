"""`logdriven report`."""

import json
from datetime import datetime, timedelta, timezone

import pytest

from tests.builders import day
from tests.cli.shop_log import ShopLog

SPAN = ("--from", "2020-01-01", "--to", "2120-01-01")


@pytest.fixture
def ran(shop):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.fail("ods.orders", day(2), "password=hunter2 is wrong")
    return log


def test_yesterday_is_reported_by_default_s40(shop, ran, logdriven):
    yesterday = datetime.now(timezone.utc) - timedelta(days=1)
    ran.sql(f"UPDATE job_log SET job_start_time = '{yesterday:%Y-%m-%d} 12:00:00.000000'")
    result = logdriven("report")
    folder = shop / ".logdriven" / "reports"
    files = [folder / f"shop-{yesterday:%Y-%m-%d}.{kind}" for kind in ("csv", "html")]
    assert result.out.split() == ["wrote", str(files[0]), "wrote", str(files[1])]
    assert files[0].read_text().count("\n") == 3
    assert "hunter2" not in files[0].read_text() + files[1].read_text()


def test_a_report_goes_to_standard_output_as_json(ran, logdriven):
    told = logdriven("report", *SPAN, "--format", "json", "--output", "-").json
    assert [row["jobStatus"] for row in told["attempts"]] == ["SUCCESS", "FAILURE"]


def test_the_name_of_a_file_states_its_format(shop, ran, logdriven):
    assert logdriven("report", *SPAN, "--output", "out/day.html").code == 0
    assert (shop / "out" / "day.html").read_text().startswith("<!doctype html>")
    assert logdriven("report", *SPAN, "--output", "out/day.json").code == 0
    assert json.loads((shop / "out" / "day.json").read_text())["project"] == "shop"


def test_one_table_is_reported_alone(ran, logdriven):
    out = logdriven("report", *SPAN, "--output", "-", "--job", "ods.orders").out
    assert out.count("\n") == 3
    assert logdriven("report", "--job", "ods.order").code == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--to", "2022-01-01"), "needs --from; give --from, too"),
        (("--from", "2022-01-02", "--to", "2022-01-01"), "must be later than --from"),
        (
            ("--format", "csv", "--format", "html", "--output", "x.csv"),
            "a file has one format; give one --format",
        ),
        (("--send", "nobody"), "no recipient nobody; known: none"),
    ],
)
def test_an_impossible_report_is_a_usage_error(shop, logdriven, arguments, problem):
    result = logdriven("report", *arguments)
    assert result.code == 2
    assert problem in " ".join(result.err.split())
