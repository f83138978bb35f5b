"""Given rows of tests as Parquet files, with the columns of the sources and tables they replace."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from logdriven_dagster.config.project import Project, suggest_nearest
from logdriven_dagster.config.yaml.documents import Location
from logdriven_dagster.errors import ConfigError
from logdriven_dagster.plugins.table_tests.files import LoadedTest
from logdriven_dagster.plugins.table_tests.models import Rows
from logdriven_dagster.plugins.table_tests.stand_ins import (
    OFFSET,
    Input,
    build_offline_project,
    list_inputs,
    resolve_names,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from logdriven_dagster.engine import SparkSession
    from logdriven_dagster.plugins.table_tests.given.rows import RowTexts


@dataclass(frozen=True)
class RowReader:
    """Reader of the rows of tests of a project, which knows the columns of its tables."""

    project: Project
    spark: "SparkSession"
    tables: frozenset[str]
    """The tables under test."""

    @cached_property
    def known(self) -> "Mapping[str, pa.Schema]":
        """The columns of the tables under test and of their upstreams, if they are known."""
        from logdriven_dagster.plugins.table_tests.given.rows import find_table_columns

        return find_table_columns(build_offline_project(self.project, self.tables), self.spark)

    def read(
        self,
        test: LoadedTest,
        rows: Rows,
        location: Location,
        declared: "pa.Schema | None" = None,
    ) -> "pa.Table":
        """Return rows of a test with the types of their columns.

        `declared` are the known columns; the test's own take precedence. Raises ConfigError for a
        value that does not fit, with its place.
        """
        from logdriven_dagster.plugins.table_tests.given.rows import (
            add_window_start,
            build_table,
            infer_schema,
        )

        texts = self.read_texts(test, rows, location)
        try:
            schema = declared if rows.columns is None else self.parse(rows.columns)
            schema = infer_schema(self.spark, texts) if schema is None else schema
        except ValueError as error:
            field = "columns" if rows.columns is not None else rows.origins[0]
            hint = None if rows.columns is not None else "state the types in `columns`"
            raise test.build_error((*location, field), str(error), hint) from None
        if not schema.names:
            hint = "state them in `columns`, such as {columns: id INT, rows: []}"
            raise test.build_error(location, "its columns are unknown", hint)
        refuse = _Refusal(test, rows, location, texts).refuse
        schema = add_window_start(schema, texts)
        return build_table(texts.rows, schema, self.project.zone, refuse)

    def parse(self, columns: str) -> "pa.Schema":
        """Parse columns of Spark's DDL. Raises ValueError if they are invalid."""
        from logdriven_dagster.plugins.table_tests.given.rows import parse_columns

        return parse_columns(self.spark, columns)

    def write_inputs(
        self,
        test: LoadedTest,
        given: Mapping[str, tuple[Rows, Location]],
        folder: Path,
    ) -> tuple[dict[str, Path], list[str]]:
        """Write the rows of all inputs of a test; return the file of each, and the inputs left out.

        `given` has the rows by the name of the input. Raises ConfigError for a mistake.
        """
        from logdriven_dagster.plugins.table_tests.given.rows import number_rows, write_rows

        files: dict[str, Path] = {}
        empty: list[str] = []
        for each in list_inputs(self.project.tables[test.spec.table]):
            schema = self._find_columns(each)
            if each.name in given:
                table = self.read(test, *given[each.name], schema)
                table = number_rows(table, OFFSET) if each.has_offsets else table
            elif schema is not None:
                table = schema.empty_table()
                empty.append(each.name)
            else:
                problem = f"{each.title} has no rows here, and its columns are unknown"
                hint = f"add `{each.name}: {{columns: id INT, …, rows: []}}` to given"
                raise test.build_error(("given",), problem, hint)
            path = folder / f"{each.name}.parquet"
            write_rows(table, path)
            files[each.name] = path
        return files, empty

    def _find_columns(self, each: Input) -> "pa.Schema | None":
        if each.is_table:
            return self.known.get(each.name)
        return None if each.columns is None else self.parse(each.columns)

    def read_texts(self, test: LoadedTest, rows: Rows, location: Location) -> "RowTexts":
        """Return rows as they are written. Raises ConfigError for a file that cannot be read."""
        from logdriven_dagster.plugins.table_tests.given.rows import READERS, RowTexts

        (origin,) = rows.origins
        if rows.rows is not None:
            return RowTexts(rows.rows)
        path = get_file(test, rows)
        try:
            return READERS[origin](path)
        except OSError as error:
            problem = f"{path}: {error.strerror}"
            raise test.build_error((*location, origin), problem) from None
        except ValueError as error:
            raise ConfigError(path, None, "", str(error)) from None


def get_file(test: LoadedTest, rows: Rows) -> Path:
    """Return the file of rows that are in one, next to the test's own file."""
    return test.document.path.parent / str(rows.csv or rows.json_file or rows.parquet)


def name_inputs(
    test: LoadedTest, project: Project, part_given: Mapping[str, Rows], place: Location
) -> dict[str, tuple[Rows, Location]]:
    """Return the given rows of a part by the names of their inputs, with their locations.

    Raises ConfigError for the name of another table or source.
    """
    names = resolve_names(project.tables[test.spec.table])
    found: dict[str, tuple[Rows, Location]] = {}
    for name, rows in part_given.items():
        location = (*place, "given", name)
        if name not in names:
            near = suggest_nearest(name, names)
            hint = f"the inputs of {test.spec.table} are {', '.join(names) or 'none'}"
            problem = f"not a source or upstream of {test.spec.table}{near}"
            raise test.build_error(location, problem, None if near else hint)
        if names[name] in found:
            raise test.build_error(location, f"{names[name]} is given twice")
        found[names[name]] = rows, location
    return found


@dataclass(frozen=True, slots=True)
class _Refusal:
    test: LoadedTest
    rows: Rows
    location: Location
    texts: "RowTexts"

    def refuse(self, number: int, column: str, problem: str) -> NoReturn:
        """Raise ConfigError for a value, in the test's file or in the file with the rows."""
        if self.rows.rows is not None:
            raise self.test.build_error((*self.location, "rows", number, column), problem)
        path, lines = get_file(self.test, self.rows), self.texts.lines
        if lines:
            raise ConfigError(path, lines[number], column, problem)
        raise ConfigError(path, None, f"row {number + 1}: {column}", problem)
