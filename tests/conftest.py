"""Fixtures that several suites share."""

import gc
import os
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from logdriven_dagster.config import secrets
from tests.classes import java_options
from tests.memory import temporary_folder

UNDECLARED = "this Spark does not tell which types the database has"

REFUSED_ON_4_0 = (
    "tests/engine/databases/test_exact_columns.py::",
    "tests/engine/databases/test_values.py::",
    "tests/engine/databases/test_wall_clocks.py::",
    "tests/engine/targets/jdbc/test_table.py::",
    "tests/stretches/test_crashes.py::test_a_database_gets_each_window_once",
)
"""The tests whose subject is a database that Spark reads or writes: 4.0 is refused there."""

_FIRST = {"setup", "faults", "examples", "ui", "security", "test_kills.py", "test_crashes.py"}
"""Folders and files whose tests start whole processes: few tests, each of which takes a while."""

pytest_plugins = [
    "tests.random_examples",
    "tests.needs",
    "tests.lake",
    "tests.servers",
    "tests.run_logs",
    "tests.dagster_instances",
    "tests.compiled_statements",
    "tests.report",
    "tests.spark_session",
]

gc.set_threshold(100_000, 20, 100)  # a sixth of a processor's time went into the default, 700

os.environ.pop("COLUMNS", None)  # workers of xdist have it, and no terminal
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(temporary_folder()))
os.environ["JAVA_TOOL_OPTIONS"] = java_options()
# Tests use no archive of classes that this machine's user has made.
if shutil.which("java"):  # or ours is kept there
    os.environ["XDG_CACHE_HOME"] = os.devnull


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first, so that no process of xdist is left with it at the end."""
    root = Path(__file__).parent
    items.sort(key=lambda item: not _FIRST & set(item.path.relative_to(root).parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave modules and tests, which stay to the end, out of garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test of databases that Spark 4.0 is refused for; any other test fails."""
    try:
        return (yield)
    except Exception as error:
        known = item.nodeid.partition("[")[0].startswith(REFUSED_ON_4_0)
        if known and version("pyspark").startswith("4.0.") and UNDECLARED in str(error):
            pytest.skip("Spark 4.0 does not report which types a database declares")
        raise


@pytest.fixture(autouse=True)
def forgotten_secrets() -> Iterator[None]:
    """Forget the secrets of a test after it: they would be hidden in what later tests expect."""
    before = set(secrets._known)
    yield
    secrets._known.intersection_update(before)
