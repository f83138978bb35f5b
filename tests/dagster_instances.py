"""Dagster's instances made quickly: their schemas are made once per process.

Alembic imports every revision of Dagster's storages for each database that it looks at, also for
that of each run: a third of the time of the tests that materialize assets.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster import DagsterInstance

_of_config = ScriptDirectory.from_config
_scripts: dict[str, ScriptDirectory] = {}


def _known_scripts(config: Config) -> ScriptDirectory:
    place = str(config.get_main_option("script_location"))
    if place not in _scripts:
        _scripts[place] = _of_config(config)
    return _scripts[place]


def pytest_configure(config: pytest.Config) -> None:
    """Keep the revisions of each storage."""
    patched = pytest.MonkeyPatch()
    patched.setattr(ScriptDirectory, "from_config", staticmethod(_known_scripts))
    config.add_cleanup(patched.undo)


@pytest.fixture(scope="session")
def instance_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an instance without runs."""
    folder = tmp_path_factory.mktemp("dagster")
    with DagsterInstance.local_temp(str(folder)):
        return folder


@contextmanager
def local_instance(folder: Path, template: Path) -> Iterator[DagsterInstance]:
    """Open an instance in a folder as a copy of one without runs."""
    shutil.copytree(template, folder, dirs_exist_ok=True)
    with DagsterInstance.local_temp(str(folder)) as instance:
        yield instance
