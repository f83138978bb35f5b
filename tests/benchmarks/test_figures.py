"""The benchmarks' figures: medians, spread, ratios by the round. Nothing is timed here."""

import pytest

from benchmarks.figures import Spread, ratios


def test_a_spread_is_the_median_and_both_ends():
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)


def test_a_single_value_is_shown_without_ends():
    assert Spread.of([1.25]).text(1) == "1.2"
    assert Spread.of([1.0, 2.0, 4.0]).text(1) == "2.0 (1.0–4.0)"


def test_without_values_there_is_no_spread():
    with pytest.raises(ValueError, match="nothing was measured"):
        Spread.of([])


def test_a_slow_round_slows_both_sides_of_a_ratio():
    assert ratios([2.0, 20.0], [1.0, 10.0]) == Spread(2.0, 2.0, 2.0, 2)
