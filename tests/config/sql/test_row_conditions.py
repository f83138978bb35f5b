"""Conditions on a row that a rerun must evaluate to the same result."""

import pytest

from logdriven_dagster.config.sql.row_conditions import find_changing_part


@pytest.mark.parametrize(
    ("condition", "part"),
    [
        ("op = 'D'", None),
        ("a.now = 'now' AND `current_date` > 1 AND t.current_date > 1", None),
        ("unix_timestamp(x) > 3 AND gone < DATE '2022-01-01' AND random = 1", None),
        ("x = 'rand()' -- rand()", None),
        ("x > NOW ()", "now()"),
        ("unix_timestamp( ) > x", "unix_timestamp()"),
        ("gone < DATE 'today'", "DATE 'today'"),
        ("CURRENT_TIMESTAMP > gone", "current_timestamp"),
        ("`rand`() > 1", "rand()"),
        ("EXISTS (SELECT 1)", "a query"),
    ],
)
def test_a_part_that_differs_between_runs_is_found(condition: str, part: str | None):
    assert find_changing_part(condition) == part
