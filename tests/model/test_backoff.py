"""How long to wait after failures in a row."""

from datetime import timedelta

import pytest

from logdriven_dagster.model.backoff import compute_back_off


def test_the_first_pause_doubles_with_each_failure_up_to_the_longest():
    assert [compute_back_off(n, 0.05, 3.0) for n in range(1, 9)] == [
        *(0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
        *(3.0, 3.0),
    ]


@pytest.mark.parametrize("first", [timedelta(seconds=1), timedelta(days=10_000)])
def test_after_any_number_of_failures_it_is_the_longest(first: timedelta):
    assert compute_back_off(1_000_000, first, timedelta(hours=1)) == timedelta(hours=1)
