"""Markers by what a test needs, derived from its fixtures, and a guard that keeps them true.

A test that asks for `spark` is marked `spark`, one that asks for a server's URL `database`, one
that asks for `browser` `browser`; `slow` and `long` state how long it takes. `make test-fast` runs
the tests without a marker. A test that starts what it is not marked for fails and names the fixture
to ask for.
"""

import os
import shutil
import stat
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from zlib import crc32

import pytest

FIXTURES = {
    "spark": {"spark", "spark_processes", "sail"},
    "database": {"server_urls", "restartable_postgres"},
    "browser": {"browser"},
    "slow": {"slow"},
    "long": {"long"},
}
"""Marker → the fixtures that stand for it, asked for directly or by other fixtures."""

SERVERS = ("postgresql", "mariadb", "postgres_url", "mariadb_url")
"""Parameters for which a server is started by a fixture that is asked for by name."""

_STARTED = "LOGDRIVEN_TEST_STARTED"
"""Names the file in which the substitute for Java notes that it was called."""

_JAVA = """#!/bin/sh
case "$*" in
  *org.apache.spark*) echo "$*" | cut -c1-200 >> "${{{started}}}"; exit 97 ;;
esac
exec {java} "$@"
"""

SAMPLED = (
    "sampled(*names): `make test` runs one of its parameters in each lane, `make test-long` the "
    "others. With names, only values of these parameters are left out: each combination of the "
    "other parameters is a family of its own"
)

_here: set[str] = set()
"""The markers of the test that runs."""


@pytest.fixture(scope="session")
def spark_processes() -> None:
    """Allow the test to start Spark in processes of its own."""


@pytest.fixture(scope="session")
def slow() -> None:
    """Leave a test of a second or more out of `make test-fast`."""


@pytest.fixture(scope="session")
def long() -> None:
    """Leave the test to `make test-long`: it takes several seconds, and others prove the rest."""


def rarely(*values: str) -> list[Any]:
    """Return parameters whose tests are left to `make test-long`.

    They share the code of others of their family, which `make test` runs.
    """
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


def require(need: str) -> None:
    """Fail the running test if it is not marked for what is about to start."""
    if need not in _here:
        fixtures = " or ".join(sorted(FIXTURES[need]))
        pytest.fail(f"this test starts what only tests marked `{need}` may: ask for {fixtures}")


def pytest_configure(config: pytest.Config) -> None:
    """Make the substitute for Java, which tests without the marker `spark` see."""
    for name in FIXTURES:
        config.addinivalue_line("markers", f"{name}: needs it; set by the fixtures asked for")
    config.addinivalue_line("markers", SAMPLED)
    home = Path(mkdtemp(prefix="logdriven-no-spark-"))
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_JAVA.format(started=_STARTED, java=shutil.which("java") or "false"))
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    config.stash[_HOME] = home


_HOME = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by the fixtures that it asks for."""
    for item in items:
        for name in _needs(item):
            item.add_marker(name)
    for item in _unsampled(items):
        item.add_marker("long")


def _unsampled(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield those that are left to `make test-long` of the tests marked `sampled`.

    The name of the test decides which of its parameters stay, so that all values of a parameter
    that many tests have, such as the type of a target, are among those that stay.
    """
    families: dict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker and not item.get_closest_marker("long"):
            fast = not any(item.get_closest_marker(name) for name in FIXTURES)
            families[_family(item, marker.args), fast].append(item)
    for (name, _), family in families.items():
        kept = crc32(name.encode()) % len(family)
        yield from (item for n, item in enumerate(family) if n != kept)


def _family(item: pytest.Item, names: tuple[str, ...]) -> str:
    """Return the name of the test, and the parameters that are not in `names` if it has any."""
    test, _, values = item.nodeid.partition("[")
    if not names:
        return test
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    sampled = {str(params[name]) for name in names if name in params}
    return "-".join(
        [test, *(value for value in values.rstrip("]").split("-") if value not in sampled)]
    )


def _needs(item: pytest.Item) -> Iterator[str]:
    asked = set(getattr(item, "fixturenames", ()))
    callspec = getattr(item, "callspec", None)
    values = () if callspec is None else callspec.params.values()
    served = any(isinstance(value, str) and value in SERVERS for value in values)
    for name, fixtures in FIXTURES.items():
        if asked & fixtures or (name == "database" and served):
            yield name


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Hide Java from a test that is not marked `spark`; its fixtures are made within this."""
    _here.clear()
    _here.update(name for name in FIXTURES if item.get_closest_marker(name))
    if "spark" in _here:
        return (yield)
    home = item.config.stash[_HOME]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_HOME", str(home))
        patched.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
        patched.setenv(_STARTED, str(home / "started"))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test in which something called the substitute for Java."""
    result = yield
    started = item.config.stash[_HOME] / "started"
    if "spark" not in _here and started.exists():
        started.unlink()
        require("spark")
    return result
