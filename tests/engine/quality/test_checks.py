"""Checks look at staged rows; a violation stops publication."""

import pytest

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

STEP = {"sql": "SELECT id FROM range(10)", "target": {"type": "iceberg"}}


def test_a_check_that_finds_nothing_lets_the_window_pass(lab: Lab):
    check = {"check": "positive", "sql": "SELECT * FROM step_1 WHERE id < 0"}
    lab.table("ods.t", STEP, checks=[check])
    lab.run("ods.t", day(1))
    assert len(lab.rows("ods.t")) == 10


def test_violations_are_counted_and_the_first_ones_shown(lab: Lab):
    lab.table(
        "ods.t", STEP, checks=[{"check": "small", "sql": "SELECT id FROM step_1 WHERE id > 4"}]
    )
    with pytest.raises(TerminalStepError) as caught:
        lab.run("ods.t", day(1))
    assert str(caught.value) == "check small: 5 violations, such as\n  id=5\n  id=6\n  id=7"
    with pytest.raises(TerminalStepError, match="never published"):
        lab.rows("ods.t")


def test_a_check_compares_with_the_rows_that_were_published_before(lab: Lab):
    lab.table("ods.t", STEP)
    lab.run("ods.t", day(1))
    sql = "SELECT id FROM step_1 WHERE id NOT IN (SELECT id FROM ods.t)"
    lab.table("ods.t", STEP, checks=[{"check": "known", "sql": sql}])
    lab.run("ods.t", day(2))
    assert len(lab.rows("ods.t")) == 20
