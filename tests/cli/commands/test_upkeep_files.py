"""`upkeep expire-snapshots` and `upkeep compact-files` as an operator uses them."""

import time

import pytest

FEW = ("--min-files", 2)


@pytest.fixture
def published(shop, spark, logdriven):
    """Three days of orders, and the first of them once more."""
    assert logdriven("run", "ods.orders", "--now", "2022-01-04").code == 0
    assert (
        logdriven("refresh", "ods.orders", "--from", "2022-01-01", "--to", "2022-01-02").code == 0
    )
    time.sleep(1.1)
    return shop


@pytest.mark.usefixtures("long")
def test_upkeep_previews_its_work_and_does_it_without_a_row_in_the_log(published, logdriven):
    before = logdriven("log", "--json").json
    expiry = ("upkeep", "expire-snapshots", "--older-than", "1 s", "--keep", 2, "--json")
    (wanted,) = [item for item in logdriven(*expiry, "--dry-run").json if item["files"]]
    assert wanted["text"].startswith("2 of 4 snapshots would be removed")
    (done,) = [item for item in logdriven(*expiry).json if item["files"]]
    assert (done["table"], done["files"], done["bytes"]) == (
        "ods.orders",
        wanted["files"],
        wanted["bytes"],
    )
    assert all(item["files"] == 0 for item in logdriven(*expiry).json)
    assert logdriven("log", "--json").json == before


@pytest.mark.usefixtures("long")
def test_each_table_has_its_line(published, logdriven):
    lines = logdriven("upkeep", "compact-files", "ods.orders", *FEW).out.splitlines()
    assert lines == ["ods.orders: no small files", "0 files, 0.0 MB."]
    every = logdriven("upkeep", "compact-files", "--dry-run").out.splitlines()
    assert len(every) > 2


def test_what_cannot_be_kept_up_is_refused(shop, logdriven):
    assert logdriven("upkeep", "compact-files", "ods.order").code == 2
    assert logdriven("upkeep", "expire-snapshots", "--older-than", "soon").code == 2
    assert logdriven("upkeep", "expire-snapshots").code == 2
    assert logdriven("upkeep", "compact-files", "--min-files", 1).code == 2
