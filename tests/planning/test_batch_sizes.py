"""The number of windows in a pass with `batch_size: auto`."""

from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.planning.stretches import MOST, BatchSizes

TABLE = "ods.orders"


def size_after(windows: int, seconds: float, rows: int) -> int:
    sizes = BatchSizes()
    sizes.record_success(TABLE, windows, seconds, rows)
    return sizes.suggest(TABLE)


def test_the_first_pass_is_small_and_fast_ones_grow():
    assert BatchSizes().suggest(TABLE) == 4
    assert size_after(4, seconds=2, rows=1000) == 32
    assert size_after(900, seconds=2, rows=1000) == MOST


def test_a_pass_takes_two_minutes_at_most_by_the_speed_of_the_one_before():
    assert size_after(4, seconds=60, rows=1000) == 8
    assert size_after(4, seconds=1000, rows=1000) == 1


def test_a_pass_reads_fifty_million_rows_at_most():
    assert size_after(4, seconds=10, rows=20_000_000) == 10
    assert size_after(4, seconds=10, rows=1_000_000_000) == 1


def test_a_pass_that_failed_is_followed_by_smaller_ones():
    sizes = BatchSizes()
    sizes.record_failure(TABLE, 32)
    sizes.record_success(TABLE, 1, seconds=1, rows=10)
    assert sizes.suggest(TABLE) == 8
    sizes.record_success(TABLE, 8, seconds=1, rows=10)
    assert sizes.suggest(TABLE) == 16
    assert sizes.suggest("ods.others") == 4


def test_halving_ends_with_the_window_that_fails_by_itself():
    sizes = BatchSizes()
    for windows, next_size in ((100, 50), (50, 25), (3, 1)):
        sizes.record_failure(TABLE, windows)
        assert sizes.limit(TABLE, MOST) == next_size
    sizes.record_failure(TABLE, 1)
    assert sizes.limit(TABLE, MOST) == MOST


def test_a_larger_pass_that_fails_later_does_not_raise_the_limit():
    sizes = BatchSizes()
    sizes.record_failure(TABLE, 4)
    sizes.record_failure(TABLE, 100)
    assert sizes.limit(TABLE, MOST) == 2


@given(st.integers(1, MOST), st.floats(0, 1e6), st.integers(0, 10**12))
def test_any_pass_is_followed_by_one_of_at_least_a_window(windows, seconds, rows):
    assert 1 <= size_after(windows, seconds, rows) <= MOST
