"""The windows that a test runs."""

from collections.abc import Iterator, Sequence

from logdriven_dagster.config.models.fields import read_instant
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.yaml.documents import Location
from logdriven_dagster.model.windows import TimeWindow, normalize_instant
from logdriven_dagster.plugins.table_tests.files import LoadedTest
from logdriven_dagster.plugins.table_tests.models import WindowBounds, WindowsPart


def choose_windows(
    test: LoadedTest,
    table: TableConfig,
    part: WindowsPart,
    place: Location,
    last: TimeWindow | None,
) -> list[TimeWindow]:
    """Return the windows of time that a part of a test runs, in order.

    Args:
        test: the test, for places of mistakes.
        table: its table, with windows of time.
        part: the windows of the test or of `then`.
        place: the location of the part in the file.
        last: the last window before it.

    Raises ConfigError for a time at which no window begins, and for a missing window.
    """
    if part.bounds:
        several = part.windows is not None
        found: list[TimeWindow] = []
        for number, bounds in enumerate(part.bounds):
            location = (*place, "windows", number) if several else (*place, "window")
            found += _find_windows(test, table, bounds, location)
        return found
    if last is not None:
        return [table.grid.window(table.grid.index(last.end))]
    if table.incremental.is_snapshot:
        return [table.grid.window(0)]
    example = f"write `window: {table.grid.window(0).start_clock:%Y-%m-%d}`, the start of a window"
    raise test.build_error((*place, "window"), "missing", example)


def choose_keys(
    test: LoadedTest, table: TableConfig, part: WindowsPart, place: Location
) -> tuple[int, int | None] | None:
    """Return the key after which the window of a table of keys begins, and its last key.

    Raises ConfigError for a window that a table without windows of time does not have.
    """
    if not part.bounds:
        return None
    location = (*place, "window" if part.window is not None else "windows")
    bounds, *others = part.bounds
    start, end = bounds.start, bounds.end
    if others or table.incremental_type != "auto_inc_id" or place:
        problem = f"{table.table} reads its next rows, so its windows cannot be chosen"
        raise test.build_error(location, problem, "remove it")
    if not isinstance(start, int) or not (end is None or isinstance(end, int)):
        raise test.build_error(location, "must be keys, such as {start: 0, end: 100}")
    if end is not None and end <= start:
        raise test.build_error((*location, "end"), "must be greater than start")
    return start, end


def choose_deliveries(
    test: LoadedTest, part: WindowsPart, place: Location, upstream: TableConfig
) -> list[TimeWindow]:
    """Return the windows of an upstream table that a table of deliveries takes.

    Raises ConfigError if the part has no window.
    """
    if not part.bounds:
        hint = f"write the start of a window of {upstream.table} that it takes"
        raise test.build_error((*place, "window"), "missing", hint)
    return choose_windows(test, upstream, part, place, None)


def _find_windows(
    test: LoadedTest, table: TableConfig, bounds: WindowBounds, location: Location
) -> Iterator[TimeWindow]:
    grid = table.grid
    try:
        start = read_instant(bounds.start, grid.zone)
        end = None if bounds.end is None else read_instant(bounds.end, grid.zone)
    except ValueError as error:
        raise test.build_error(location, str(error)) from None
    first = grid.index(start)
    _refuse_other(test, table, grid.window(first), start == grid.get_bound(first), location)
    if end is None:
        yield grid.window(first)
        return
    after = grid.index(end)
    is_bound = normalize_instant(end) == grid.get_bound(after)
    _refuse_other(test, table, grid.window(after), is_bound, location)
    if after <= first:
        raise test.build_error((*location, "end"), "must be later than start")
    yield from (grid.window(number) for number in range(first, after))


def _refuse_other(
    test: LoadedTest,
    table: TableConfig,
    window: TimeWindow,
    is_bound: bool,  # noqa: FBT001 - a condition, not a mode
    location: Location,
) -> None:
    if not is_bound:
        problem = f"no window of {table.table} starts at this time"
        raise test.build_error(location, problem, f"the window that contains it is {window}")


def list_locations(parts: Sequence[WindowsPart]) -> list[Location]:
    """Return the location of each part of a test in its file."""
    return [() if number == 0 else ("then", number - 1) for number in range(len(parts))]
