"""The expectations of a test, compared with its last window and the rows of the table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.targets import REJECTED
from logdriven_dagster.config.yaml.documents import Location
from logdriven_dagster.errors import NotPublishedError, in_brief
from logdriven_dagster.execution.events import WindowEvent, WindowFailed, WindowSucceeded
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.attempts import Counts
from logdriven_dagster.plugins.table_tests.comparison import compare_rows
from logdriven_dagster.plugins.table_tests.files import LoadedTest
from logdriven_dagster.plugins.table_tests.inputs import RowReader
from logdriven_dagster.plugins.table_tests.models import Expectation
from logdriven_dagster.plugins.table_tests.results import Failure

if TYPE_CHECKING:
    import pyarrow as pa

_FIELDS = {
    "source": "source",
    "target": "target",
    "rejected": "failure",
    "inserted": "inserted",
    "updated": "updated",
    "malformed": "malformed",
}
"""Count in a test → field of `Counts`."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expectations of one part of a test."""

    test: LoadedTest
    location: Location
    """The location of `expect` in the file."""
    given: Expectation
    reader: RowReader
    empty: Sequence[str]
    """The inputs that had no rows because the test leaves them out."""

    def find_failures(self, runner: Runner, event: WindowEvent | None) -> Iterator[Failure]:
        """Yield the expectations that are not met after the last window, whose event is `event`.

        Raises ConfigError for an expectation that can never be met.
        """
        given = self.given
        if given.fails is not None:
            yield from self._find_success(event, given.fails)
        if isinstance(event, WindowSucceeded):
            yield from self._compare_counts(Counts.sum(event.counts))
        if given.origins:
            yield from self._compare_rows(runner, self.test.spec.table, given, self.location)
        if isinstance(given.rejected, tuple):
            location = (*self.location, "rejected")
            rejected = f"{self.test.spec.table}{REJECTED}"
            rows = Expectation(rows=given.rejected)
            yield from self._compare_rows(runner, rejected, rows, location)

    def _find_success(self, event: WindowEvent | None, expected: str) -> Iterator[Failure]:
        if not isinstance(event, WindowFailed):
            yield self._build("the window succeeded, but must fail", "fails")
        elif expected.lower() not in event.error.lower():
            problem = f"the window failed with another message: {in_brief(event.error)}"
            yield self._build(problem, "fails")

    def _compare_counts(self, counts: Counts) -> Iterator[Failure]:
        expected: dict[str, int] = {str(name): n for name, n in self.given.counts.items()}
        places: dict[str, Location] = {name: ("counts", name) for name in expected}
        if isinstance(self.given.rejected, int):
            expected["rejected"], places["rejected"] = self.given.rejected, ("rejected",)
        for name, number in expected.items():
            found = getattr(counts, _FIELDS[name]) or 0
            if found != number:
                yield self._build(f"{name}: {found} rows, but {number} expected", *places[name])

    def _compare_rows(
        self, runner: Runner, table: str, rows: Expectation, location: Location
    ) -> Iterator[Failure]:
        from logdriven_dagster.plugins.table_tests.given.results import list_records, read_result

        try:
            found = read_result(runner.project, runner.engine, table)
        except NotPublishedError:
            found = None
        expected = self._read_expected(rows, location, found)
        columns = (found or expected).column_names if rows.exact else expected.column_names
        zone = runner.project.zone
        key = getattr(runner.project.table(table).output, "key", ())
        wanted = list_records(expected, zone)
        filled = [{**dict.fromkeys(columns), **row} for row in wanted]
        actual = [] if found is None else list_records(found, zone)
        diff = compare_rows(filled, actual, columns, key)
        if diff.differences:
            notes = tuple(f"{name} was not given, so it had no rows" for name in self.empty)
            yield Failure(f"{table} has other rows", self._find_line("rows"), diff, notes)

    def _read_expected(
        self, rows: Expectation, location: Location, found: "pa.Table | None"
    ) -> "pa.Table":
        """Return the expected rows, in the types of the columns that they name."""
        from logdriven_dagster.plugins.table_tests.given.results import select_columns

        if found is None:
            return self.reader.read(self.test, rows, location)
        place = (*location, rows.origins[0])
        texts = self.reader.read_texts(self.test, rows, location)
        names = list(dict.fromkeys(name for row in texts.rows for name in row))
        try:
            schema = select_columns(found.schema, names or found.column_names)
        except ValueError as error:
            raise self.test.build_error(place, str(error)) from None
        return self.reader.read(self.test, rows, location, schema)

    def _build(self, problem: str, *field: str | int) -> Failure:
        return Failure(problem, self._find_line(*field))

    def _find_line(self, *field: str | int) -> int:
        return self.test.build_error((*self.location, *field), "").line or 1
