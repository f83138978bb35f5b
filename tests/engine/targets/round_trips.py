"""Values on a round trip, and what came back otherwise."""

from typing import Any

from hypothesis import HealthCheck, Phase, settings

FEW = settings(
    max_examples=3,
    phases=[Phase.generate],  # a smaller example is not worth a hundred more queries
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


INSTANTS = [
    "0001-01-01 00:00:00",
    "1582-10-10 00:00:00",
    "1899-12-31 23:59:59.999999",
    "1969-12-31 23:59:59.999999",
    "2018-11-04 00:00:00",
    "2026-03-29 02:30:00",
    "2026-10-25 01:30:00.000001",
    "9999-12-31 23:59:59.999999",
]


def differences(found: dict[str, list[str]], given: dict[str, list[str]]) -> dict[str, Any]:
    """Column → the values that are others now, with what they were."""
    return {
        name: different
        for name, values in given.items()
        if (
            different := [
                pair for pair in zip(found[name], values, strict=True) if pair[0] != pair[1]
            ]
        )
    }
