"""Medians, spread and ratios of what was measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle and the ends of some measurements; with one of them, all three are it."""

    median: float
    least: float
    most: float
    number: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """ValueError without values."""
        if not values:
            raise ValueError("nothing was measured")
        return cls(statistics.median(values), min(values), max(values), len(values))

    def text(self, decimals: int) -> str:
        """`12.3 (11.9–13.0)`, without the ends where there is one value only."""
        middle = f"{self.median:,.{decimals}f}"
        if self.number == 1:
            return middle
        return f"{middle} ({self.least:,.{decimals}f}–{self.most:,.{decimals}f})"


def ratios(one: Sequence[float], other: Sequence[float]) -> Spread:
    """How many times as long one took as the other, round by round.

    What slows a machine down for a while slows both contestants of a round; their ratio stays.
    """
    pairs = list(zip(one, other, strict=False))
    return Spread.of([mine / theirs for mine, theirs in pairs])
