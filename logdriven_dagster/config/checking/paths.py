"""Mistakes in the paths of sources that depend on the window."""

from collections.abc import Iterator
from itertools import islice

from logdriven_dagster.config.derived.clock_formats import (
    END,
    FORMATTED,
    RANGE,
    START,
    list_path_texts,
)
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig

_WINDOWS = 4
"""The number of windows that are compared: two neighbors may lie on both sides of a midnight."""


def find_path_mistakes(table: TableConfig, step: StepConfig) -> Iterator[tuple[str, str | None]]:
    """Yield problem and fix of each mistake in the path of a step's source."""
    path = step.source.texts.get("path", "") if step.source else ""
    if step.source is None or table.is_sliced or "${" not in path:
        return
    for name in (START, END):
        if f"${{{name}}}" in path:
            yield (
                f"the text of ${{{name}}} is like 2026-11-02 00:00:00, which no path can contain",
                f"write ${{{RANGE}:yyyy-MM-dd}}",
            )
    found = list(FORMATTED.finditer(path))
    if any(each[1] == RANGE for each in found) and set("{}") & set(FORMATTED.sub("", path)):
        yield f"{{…}} cannot be combined with ${{{RANGE}:…}}", "write * or a step of its own"
    if not found or step.source.window_column is not None:
        return
    windows = [table.grid.window(n) for n in range(_WINDOWS)]
    try:
        paths = [set(list_path_texts(path, window)) for window in windows]
    except ValueError:
        return  # an unknown part is reported by itself
    if any(one & other for one, other in zip(paths, islice(paths, 1, None), strict=False)):
        yield (
            "several windows would read the same files as a whole",
            "set window_column, or write a format with the time at which windows begin",
        )
