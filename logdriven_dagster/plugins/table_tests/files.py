"""Files of tests: `tests/**/*.yaml` of a project, each with one test or a list of tests."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logdriven_dagster.config.checking.documents import validate_document
from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.config.project import Project, suggest_nearest
from logdriven_dagster.config.yaml.documents import Document, Location, read_document
from logdriven_dagster.errors import ConfigError, InvalidProjectError, UsageError
from logdriven_dagster.plugins.table_tests.models import TableTest

FOLDER = "tests"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class LoadedTest:
    """A test with its place in a file."""

    spec: TableTest
    document: Document
    """The file, or the part of it with this test."""

    @property
    def line(self) -> int:
        """The line in which the test begins."""
        return self.document.lines.get(("test",), 1)

    def build_error(self, location: Location, problem: str, hint: str | None = None) -> ConfigError:
        """Return an error at a field of the test; rows may be written without the field `rows`."""
        value: Any = self.document.values
        written: list[str | int] = []
        for part in location:
            if part == "rows" and isinstance(value, list):
                continue
            written.append(part)
            known = isinstance(value, dict) and part in value
            known = known or (isinstance(value, list) and isinstance(part, int))
            value = value[part] if known else None
        return self.document.error(tuple(written), problem, hint)


def load_tests(project: Project, selected: Sequence[str] = ()) -> list[LoadedTest]:
    """Load the tests of a project, in the order of their files.

    `selected` are files or folders of tests, or selections of tables; all tests without it. Raises
    InvalidProjectError with every mistake, and UsageError if there is no such test.
    """
    files = [path for text in selected for path in _find_files(project, text)]
    names = [text for text in selected if not list(_find_files(project, text))]
    tables = set(select_tables(project, names)) if names else set()
    errors: list[ConfigError] = []
    chosen: list[LoadedTest] = []
    for path in dict.fromkeys([*_list_files(project.root / FOLDER), *files]):
        loaded = load_file(project, path, errors)
        is_named = not selected or path in files
        chosen += [test for test in loaded if is_named or test.spec.table in tables]
    if errors:
        raise InvalidProjectError(errors)
    if not chosen:
        where = f"{project.root / FOLDER}/*.yaml"
        missing = f"of {', '.join(selected)} " if selected else ""
        fix = "write one with `logdriven test --create TABLE --window START`"
        raise UsageError(f"there is no test {missing}in {where}; {fix}")
    return chosen


def load_file(project: Project, path: Path, errors: list[ConfigError]) -> list[LoadedTest]:
    """Load the tests of a file; add its mistakes to `errors`."""
    try:
        document = read_document(path)
        parts = list(_split(document))
    except ConfigError as error:
        errors.append(error)
        return []
    loaded = []
    for part in parts:
        spec = validate_document(part, TableTest, errors, zone=project.zone)
        if spec is None:
            continue
        if spec.table not in project.tables:
            problem = f"unknown table{suggest_nearest(spec.table, project.tables)}"
            errors.append(part.error(("table",), problem))
            continue
        loaded.append(LoadedTest(spec, part))
    return loaded


def _find_files(project: Project, text: str) -> Iterator[Path]:
    """Yield the files that an argument names: a file, or the files of a folder."""
    for path in (Path(text), project.root / text):
        if path.is_dir():
            yield from _list_files(path.resolve())
            return
        if path.is_file() and path.suffix in _SUFFIXES:
            yield path.resolve()
            return


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("**/*") if path.suffix in _SUFFIXES)


def _split(document: Document) -> Iterable[Document]:
    """Return a document for each test of a file; those of a list share the file's `table`."""
    values = document.values
    if "tests" not in values:
        return [document]
    tests = values["tests"]
    if not isinstance(tests, list) or not all(isinstance(each, dict) for each in tests):
        raise document.error(("tests",), "must be a list of tests, such as [{test: …, given: …}]")
    if others := sorted(map(str, values.keys() - {"tests", "table"})):
        hint = "move it into the tests"
        raise document.error((others[0],), "not allowed next to `tests`", hint)
    shared = {"table": values["table"]} if "table" in values else {}
    return [
        Document(document.path, {**shared, **each}, _find_lines(document, number))
        for number, each in enumerate(tests)
    ]


def _find_lines(document: Document, number: int) -> dict[Location, int]:
    """Return the lines of one test of a list; its own first line is that of the whole."""
    inside: dict[Location, int] = {
        location[2:]: line
        for location, line in document.lines.items()
        if location[:2] == ("tests", number)
    }
    if "table" in document.values:
        inside.setdefault(("table",), document.lines[("table",)])
    return inside
