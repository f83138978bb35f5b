"""One room for bytes: only `engine/storage` knows how a file system keeps and replaces files."""

import re
from pathlib import Path

import pytest

import logdriven_dagster

PACKAGE = Path(logdriven_dagster.__file__).parent
ROOM = "engine/storage/"
ON_THIS_MACHINE = {
    "engine/databases/connections.py",  # a database of SQLite
    "engine/failures.py",  # names of Python files
    "engine/maintenance/functions.py",  # the folder of a project's code
    "engine/needs.py",  # Spark's jars
    "engine/quality/inspector.py",  # the folder of a table's code
    "engine/queries/transforms.py",  # the folder of a table's code
    "engine/sources/files/arrivals.py",  # names of source files, told from their paths
    "engine/sources/files/plain/files.py",  # source files
    "engine/sources/files/listing.py",  # source files
    "engine/sources/files/text_files.py",  # source files
    "engine/sources/files/plain/columns.py",  # source files
    "engine/sources/known_sources.py",  # source files
    "engine/spark/classic/archives/archive.py",
    "engine/spark/classic/archives/training.py",
    "engine/spark/classic/archives/workload.py",
    "engine/spark/classic/java.py",
    "engine/spark/classic/launching.py",
    "engine/spark/classic/settings_files.py",
    "plugins/sail/found_files.py",  # source files
    "plugins/sail/mode.py",  # source files
    "plugins/sail/reads.py",  # source files
    "plugins/sail/program.py",
    "plugins/sail/server.py",
    "engine/spark/server/process.py",
    "engine/spark/server/state.py",
    "engine/spark/settings.py",
}
"""Modules of the engine with paths of things that every host has for itself."""
LOCAL_BY_NATURE = {
    "engine/spark/classic/archives/archive.py": {"fsync"},  # an archive for this machine
    "engine/spark/classic/archives/training.py": {"rmtree"},  # what a training left on this machine
    "engine/spark/classic/java.py": {"rmtree", "rename"},  # a Java that was put together here
    "engine/spark/classic/settings_files.py": {"rmtree"},  # what a killed start of a JVM left here
    "engine/sources/known_sources.py": {"scandir"},  # whether source files are the same as before
}


def engine_modules() -> list[str]:
    paths = sorted((PACKAGE / "engine").rglob("*.py"))
    names = [path.relative_to(PACKAGE).as_posix() for path in paths]
    return [name for name in names if not name.startswith(ROOM)]


def text(module: str) -> str:
    return (PACKAGE / module).read_text()


@pytest.mark.parametrize(
    "word", ["file://", "os.replace", "st_ino", "inode()", "rmtree", "rename", "fsync", "scandir"]
)
def test_no_other_module_of_the_engine_touches_files_as_such(word: str):
    pattern = re.compile(rf"\.{word}\(" if word == "rename" else re.escape(word))
    found = {
        module
        for module in engine_modules()
        if pattern.search(text(module)) and word not in LOCAL_BY_NATURE.get(module, ())
    }
    assert found == set()


def test_only_what_is_of_this_machine_has_paths():
    found = {module for module in engine_modules() if "from pathlib import" in text(module)}
    assert found <= ON_THIS_MACHINE


def test_the_room_knows_no_kind_of_target_or_source():
    for path in (PACKAGE / "engine" / "storage").glob("*.py"):
        others = re.findall(r"logdriven_dagster\.engine\.(\w+)", path.read_text())
        assert set(others) <= {"storage"}, path.name
