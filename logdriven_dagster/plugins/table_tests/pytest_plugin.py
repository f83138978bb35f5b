"""The pytest plug-in that collects the tests of tables of a project.

A file of tests lies in the folder `tests` next to `logdriven.yaml`. Nothing else is imported before
one is found. A mistake in a project fails the tests of that project only.
An entry point would make pytest rewrite the assertions of the whole package.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.plugins.table_tests.files import LoadedTest

_PROJECT_FILE, _FOLDER = "logdriven.yaml", "tests"
_IS_TEST = re.compile(rb"^tests?:", re.MULTILINE)
_NAMES_TABLE = re.compile(rb"^[ -]*table:", re.MULTILINE)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return the collector of a file of tests of tables; None for every other file."""
    if file_path.suffix not in (".yaml", ".yml") or (root := _find_project(file_path)) is None:
        return None
    text = file_path.read_bytes()
    if not (_IS_TEST.search(text) and _NAMES_TABLE.search(text)):
        return None
    return TableTestFile.from_parent(parent, path=file_path, root=root)


def _find_project(path: Path) -> Path | None:
    """Return the folder of the project whose tests a file belongs to."""
    for folder in path.parents:
        if folder.name == _FOLDER and (folder.parent / _PROJECT_FILE).is_file():
            return folder.parent
    return None


class _Projects:
    """The projects of a pytest run, each with one Spark session for all of its tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._opened: dict[Path, Any] = {}
        self._stack = ExitStack()
        config.add_cleanup(self._stack.close)

    def open(self, project: "Project", tables: set[str]) -> Any:
        """Return the tests of a project, which start Spark at the first call."""
        from logdriven_dagster.plugins.table_tests.running import open_tests

        if project.root not in self._opened:
            self._opened[project.root] = self._stack.enter_context(open_tests(project, tables))
        return self._opened[project.root]


_PROJECTS = pytest.StashKey[_Projects]()


class TableTestFile(pytest.File):
    """A file of tests of tables."""

    def __init__(self, *, root: Path, **options: Any) -> None:
        super().__init__(**options)
        self._root = root

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the tests of the file; one that fails if the file or the project has mistakes."""
        from logdriven_dagster.config.loading import load_project
        from logdriven_dagster.errors import LogdrivenError
        from logdriven_dagster.plugins.table_tests.files import load_tests

        try:
            project = load_project(self._root)
            loaded = load_tests(project, [str(self.path)])
        except LogdrivenError as error:
            yield BrokenFile.from_parent(self, name="mistakes", error=error)
            return
        names: dict[str, int] = {}
        for test in loaded:
            name = f"{test.spec.table}: {test.spec.test}"
            names[name] = names.get(name, 0) + 1
            unique = name if names[name] == 1 else f"{name} ({names[name]})"
            yield TableTestItem.from_parent(self, name=unique, project=project, test=test)


class TableTestError(Exception):
    """A test of a table did not pass; the text describes the problems."""


class _Item(pytest.Item):
    line = 0

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the description of a failure, without the lines of this package."""
        if isinstance(excinfo.value, TableTestError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place of the test in its file, and its name."""
        return self.path, self.line, self.name


class TableTestItem(_Item):
    """A test of a table."""

    def __init__(self, *, project: "Project", test: "LoadedTest", **options: Any) -> None:
        super().__init__(**options)
        self.project, self.test = project, test
        self.line = test.line - 1
        if self.config.pluginmanager.hasplugin("xdist"):
            self.add_marker(pytest.mark.xdist_group("logdriven"))  # one Spark for --dist loadgroup

    def runtest(self) -> None:
        """Run the test. Raises TableTestError if it does not pass."""
        from logdriven_dagster.plugins.table_tests.reports import describe_outcome

        projects = self.config.stash.setdefault(_PROJECTS, _Projects(self.config))
        items = [item for item in self.session.items if isinstance(item, TableTestItem)]
        tables = {item.test.spec.table for item in items if item.project.root == self.project.root}
        outcome = projects.open(self.project, tables).run(self.test)
        if not outcome.has_passed:
            raise TableTestError("\n".join(describe_outcome(outcome)))


class BrokenFile(_Item):
    """The failure of a file of tests that has mistakes, or whose project has."""

    def __init__(self, *, error: Exception, **options: Any) -> None:
        super().__init__(**options)
        self._error = error

    def runtest(self) -> None:
        """Raise TableTestError with the mistakes."""
        raise TableTestError(str(self._error))
