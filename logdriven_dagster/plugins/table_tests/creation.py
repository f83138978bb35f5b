"""Creation of a test from real rows of a window (`logdriven test --create`)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.arrow.values import text_of
from logdriven_dagster.errors import TerminalStepError, UsageError
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.dependencies import list_reads
from logdriven_dagster.plugins.table_tests.files import FOLDER, load_file
from logdriven_dagster.plugins.table_tests.inputs import RowReader
from logdriven_dagster.plugins.table_tests.results import Failure
from logdriven_dagster.plugins.table_tests.running import open_tests

if TYPE_CHECKING:
    import pyarrow as pa

_PLACEHOLDER = "  rows: []\n"


class _Dumper(yaml.SafeDumper):
    """YAML writer of rows: times and decimals without tags and quotes."""


def _represent_decimal(dumper: yaml.SafeDumper, value: Decimal) -> yaml.Node:
    """Return a number, or a text in quotes if a floating-point number would lose digits."""
    text = format(value, "f")
    is_exact = Decimal(repr(float(value))) == value
    is_whole = is_exact and "." not in text
    kind = "int" if is_whole else "float" if is_exact else "str"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", text)


_Dumper.add_representer(Decimal, _represent_decimal)


@dataclass(frozen=True, slots=True)
class Creation:
    """The creation of a test of one window of a table from real rows."""

    runner: Runner
    """The runner of the project, whose sources and tables are read."""
    table: TableConfig
    window: TimeWindow
    most: int
    """The maximum number of rows of each source and upstream table."""

    def write(self) -> Path:
        """Write the test into a new file, and return its path.

        The expected rows are those that the window makes of the given ones. Raises StepError if
        rows cannot be read or the window fails, and UsageError if the file exists already.
        """
        project = self.runner.project
        start = f"{self.window.start_clock:%Y-%m-%dT%H%M}".removesuffix("T0000")
        path = project.root / FOLDER / f"{self.table.table}_{start}.yaml"
        if path.exists():
            raise UsageError(f"{path} exists already; delete or rename it first")
        text = "".join(self._describe())
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        try:
            expected = "".join(self._list_expected(project, path))
            path.write_text(text.replace(_PLACEHOLDER, expected), encoding="utf-8")
        except BaseException:
            path.unlink()
            raise
        return path

    def _describe(self) -> Iterator[str]:
        """Yield the parts of the file, without the expected rows."""
        clock = f"{self.window.start_clock:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")
        yield f"test: the rows of {clock} are those of the day on which this test was created\n"
        yield f"table: {self.table.table}\nwindow: {clock}\n"
        given = list(self._read_inputs())
        yield "given:\n" if given else ""
        for name, found, is_known in given:
            yield from self._describe_input(name, found, is_known=is_known)
        yield f"expect:\n{_PLACEHOLDER}"

    def _describe_input(self, name: str, found: "pa.Table", *, is_known: bool) -> Iterator[str]:
        from logdriven_dagster.engine.arrow.values import type_name

        rows = list(format_rows(found, self.runner.project, nulls=False))
        if is_known:
            yield f"  {name}: []\n" if not rows else f"  {name}:\n"
            yield from (f"    - {row}\n" for row in rows)
            return
        columns = ", ".join(f"`{field.name}` {type_name(field.type)}" for field in found.schema)
        yield f"  {name}:\n    columns: {_dump(columns)}\n"
        yield "    rows: []\n" if not rows else "    rows:\n"
        yield from (f"      - {row}\n" for row in rows)

    def _read_inputs(self) -> "Iterator[tuple[str, pa.Table, bool]]":
        """Yield each input with its first rows of the window, and whether its columns are known."""
        from logdriven_dagster.plugins.table_tests.given.real_rows import read_source_rows
        from logdriven_dagster.plugins.table_tests.stand_ins import get_declared_columns

        runner, project = self.runner, self.runner.project
        reads = list_reads(self.table, project.tables, self.window)
        name = self.table.table
        run = WindowRun(0, name, self.window, 0, project.variables(self.table), reads)
        spark = runner.engine.spark  # type: ignore[attr-defined]  # tests run on Spark
        known = RowReader(project, spark, frozenset({name})).known
        for step in self.table.steps:
            if step.source is not None:
                found = read_source_rows(runner.engine, step, run, self.most)
                yield step.step, found, get_declared_columns(step.source) is not None
        for name, ranges in reads.items():
            if name != self.table.table and ranges != ():
                window = None if ranges is None else ranges[0]
                found = runner.engine.look(name, window, None, self.most)
                columns = known[name].names if name in known else []
                yield name, found, set(found.column_names) <= set(columns)

    def _list_expected(self, project: Project, path: Path) -> Iterator[str]:
        """Yield the lines of the rows that the window makes of the given rows."""
        (test,) = load_file(project, path, [])
        with open_tests(project, {self.table.table}) as tests:
            outcome = tests.run(test)
        for problem in outcome.problems:
            if not isinstance(problem, Failure) or problem.diff is None:
                raise TerminalStepError(f"the test could not be created: {problem}")
        rows = [
            each.found
            for problem in outcome.problems
            if isinstance(problem, Failure) and problem.diff is not None
            for each in problem.diff.differences
            if each.found is not None
        ]
        yield "  rows:\n" if rows else _PLACEHOLDER
        yield from (f"    - {format_row(row)}\n" for row in rows)


def format_rows(table: "pa.Table", project: Project, *, nulls: bool) -> Iterator[str]:
    """Yield rows as YAML on one line each; `nulls` also writes values that are NULL."""
    from logdriven_dagster.plugins.table_tests.given.results import list_records

    for row in list_records(table, project.zone):
        yield format_row(row if nulls else {n: v for n, v in row.items() if v is not None})


def format_row(row: Mapping[str, Any]) -> str:
    """Return a row as YAML on one line, with times as the project's wall clock shows them."""
    return _dump({name: _simplify(value) for name, value in row.items()})


def _simplify(value: Any) -> Any:
    """Return a value that YAML shows plainly, without secrets."""
    match value:
        case str():
            return redact(value)
        case datetime():
            return text_of(value)
        case Mapping():
            return {str(key): _simplify(each) for key, each in value.items()}
        case list() | tuple():
            return [_simplify(each) for each in value]
        case _:
            return value


def _dump(value: Any) -> str:
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        default_flow_style=True,
        sort_keys=False,
        allow_unicode=True,
        width=10**9,
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()
