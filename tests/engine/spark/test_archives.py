"""Archives of Spark's classes: which one a JVM uses, and how it is made."""

import atexit
import json
import logging
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import psutil
import pytest
from typer.testing import CliRunner

from logdriven_dagster.cli.commands.spark import app
from logdriven_dagster.config import Project, load_project
from logdriven_dagster.engine.spark.classic.archives import training
from logdriven_dagster.engine.spark.classic.archives.archive import (
    Archive,
    archive_for,
    with_archive,
)
from logdriven_dagster.engine.spark.settings import launch_settings
from logdriven_dagster.errors import UsageError
from logdriven_dagster.processes import available_memory
from tests.classes import FIRST_COMPILER
from tests.patience import PATIENCE

OPTIONS, CLASS_PATH = "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"
OF_EXECUTORS = "spark.executor.extraJavaOptions"
A_CLUSTER = {"spark.master": "spark://127.0.0.1:7077", "spark.driver.host": "127.0.0.1"}
A_RUN = """
import json, sys
from logdriven_dagster.engine.spark.classic.archives.archive import with_archive
print(json.dumps(with_archive(json.loads(sys.argv[1]))))
"""

A_RUN_WITH_AN_EXECUTOR = """
import sys
from logdriven_dagster.config import load_project
from logdriven_dagster.engine.spark.session import spark_session
spark = spark_session(load_project(sys.argv[1]))
print(spark.range(9).repartition(2).count())
"""


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in training._CI:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", FIRST_COMPILER)  # without the archive of the tests
    return tmp_path / "logdriven"


@pytest.fixture
def java(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Java that says its version and cannot start."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    program = """#!/bin/sh\necho 'openjdk version "17.0.1"'; exit $(($# > 1))\n"""
    (home / "bin" / "java").write_text(program)
    (home / "bin" / "java").chmod(0o700)
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "logdriven.yaml").write_text("project: shop")
    return load_project(tmp_path / "shop")


def archive(settings: dict[str, str] | None = None) -> Archive:
    found = archive_for(settings or {})
    assert found is not None
    return found


def made(own: Archive) -> Archive:
    draft = own.file.with_name("draft")
    draft.write_bytes(b"classes")
    own.replace(draft)
    return own


def used(settings: dict[str, str] | None = None) -> bool:
    """Whether a JVM with these settings starts with an archive."""
    return with_archive(settings or {}) != (settings or {})


def run(settings: dict[str, str]) -> "subprocess.Popen[str]":
    """A process that starts with the settings of a JVM, and ends."""
    words = [sys.executable, "-c", A_RUN, json.dumps(settings)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def trainings(cache: Path) -> list[str]:
    """Whatever trainings that go on have in the cache."""
    return [path.name for path in cache.glob(".training-*")]


def test_a_jvm_of_another_java_class_path_or_heap_has_another_archive(java, tmp_path):
    jar = tmp_path / "driver.jar"
    jar.write_bytes(b"1")
    found = [archive(), archive({"spark.driver.memory": "2g"})]
    found += [archive({OPTIONS: "-XX:+UseParallelGC"}), archive({CLASS_PATH: str(jar)})]
    jar.write_bytes(b"12")
    found.append(archive({CLASS_PATH: str(jar)}))
    (java / "release").write_text('JAVA_VERSION="17.0.1"\nIMPLEMENTOR="Another"')
    found.append(archive())
    assert len({each.file for each in found}) == len(found)
    assert archive({"spark.app.name": "shop", OPTIONS: "-Dzone=UTC"}).file == archive().file


def test_java_25_has_profiles_in_its_archives(java, tmp_path):
    assert archive().settings_to_make(Path("a"))[OPTIONS] == "-XX:ArchiveClassesAtExit=a"
    options = made(archive()).settings_to_use({})[OPTIONS]
    assert options.startswith(f"-XX:SharedArchiveFile={archive().file} ")
    (java / "release").write_text('JAVA_VERSION="25.0.1"')
    assert archive().settings_to_make(Path("a"))[OPTIONS] == "-XX:AOTCacheOutput=a"
    options = made(archive()).settings_to_use({OPTIONS: "-Da=b"})[OPTIONS]
    assert options.startswith(f"-XX:AOTCache={archive().file} ")
    assert options.endswith(" -Da=b")


def test_a_training_gets_neither_secrets_nor_options_that_write_files(java):
    options = "-Dkey=secret -Xlog:gc:file=gc.log -XX:+UseParallelGC"
    settings = {OPTIONS: options, "spark.hadoop.fs.s3a.secret.key": "secret"}
    assert archive(settings).settings == {OPTIONS: "-XX:+UseParallelGC"}


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:7077", "spark://me:7077", "local-cluster[1,1,1024]"]
)
def test_executors_on_this_machine_use_the_archive_of_their_driver(java, master):
    own = made(archive())
    settings = A_CLUSTER | {"spark.master": master, OF_EXECUTORS: "-Da=b"}
    options = own.settings_to_use(settings)[OF_EXECUTORS]
    assert options == f"-XX:SharedArchiveFile={own.file} -Da=b"


def test_executors_of_another_java_start_all_the_same(java, tmp_path):
    (java / "release").write_text('JAVA_VERSION="25.0.1"')
    options = made(archive()).settings_to_use(A_CLUSTER)[OF_EXECUTORS].split()
    older = shutil.which("java", path="/usr/bin")
    sparks_own = "-XX:+IgnoreUnrecognizedVMOptions"
    subprocess.run([older or "java", sparks_own, *options, "-version"], check=True)


@pytest.mark.parametrize(
    "other",
    [
        {"spark.master": "local[2]"},
        {"spark.driver.host": "10.0.0.1"},
        {OF_EXECUTORS: "-Xshare:off"},
        {OF_EXECUTORS: "-Da=b -XX:SharedArchiveFile=own.jsa"},
    ],
)
def test_executors_elsewhere_or_with_options_of_archives_are_left_alone(java, other):
    settings = A_CLUSTER | other
    found = made(archive()).settings_to_use(settings)
    assert found.get(OF_EXECUTORS) == settings.get(OF_EXECUTORS)


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=own.jsa"])
def test_a_project_whose_options_speak_of_archives_has_none_of_ours(java, option):
    assert archive_for({OPTIONS: f"-Da=b {option}"}) is None


def test_without_a_place_or_with_files_in_a_folder_of_classes_there_is_none(
    java, monkeypatch, tmp_path
):
    assert archive_for({CLASS_PATH: str(java)}) is None
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert archive_for({}) is None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_archive_that_others_can_write_is_not_used(java, mode, caplog):
    own = made(archive())
    own.file.chmod(mode)
    with caplog.at_level(logging.DEBUG):
        assert not used()
    assert caplog.records[-1].message == "archive_refused"


def test_no_archive_is_used_from_a_folder_that_others_can_write(java, cache):
    own = made(archive())
    cache.chmod(0o770)
    assert not own.can_be_used()


def remove_checksum(file: Path) -> None:
    file.with_suffix(".crc32").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"class"),
        lambda file: file.write_bytes(b"classes of another Java"),
        lambda file: file.write_bytes(b"\0\0asses"),
        remove_checksum,
    ],
    ids=["empty", "truncated", "another", "zeroed", "without its checksum"],
)
def test_a_damaged_archive_is_not_used_and_made_again(java, started, damage):
    """Java 17 crashes on a truncated archive (SIGBUS), and on one with zeros (SIGSEGV)."""
    own = made(archive())
    assert used()
    damage(own.file)
    own.file.chmod(0o600)
    assert not used()
    assert started()


def test_an_archive_below_a_path_with_a_space_is_one_option(java, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    own = made(archive())
    option = f"-XX:SharedArchiveFile={own.file}"
    found = own.settings_to_use(A_CLUSTER)
    assert shlex.split(found[OPTIONS])[0] == shlex.split(found[OF_EXECUTORS])[0] == option
    draft = tmp_path / "my draft"
    assert shlex.split(own.settings_to_make(draft)[OPTIONS]) == [
        f"-XX:ArchiveClassesAtExit={draft}"
    ]


def test_a_java_without_an_archive_of_its_own_has_none_before_java_25(java):
    (java / "lib" / "server" / "classes.jsa").unlink()
    assert archive_for({}) is None
    (java / "release").write_text('JAVA_VERSION="25.0.1"')
    assert archive_for({}) is not None


def test_a_user_without_a_home_folder_has_no_archive(java, monkeypatch):
    """As in a container whose user id has no name."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert archive_for({}) is None


def test_a_run_without_an_archive_makes_none(java, cache, project):
    settings = launch_settings(project)
    out, _ = run(settings).communicate(timeout=PATIENCE)
    assert json.loads(out) == settings
    assert list(cache.iterdir()) == []


def test_a_training_that_fails_gives_the_reason_and_leaves_nothing(java, cache, project):
    with pytest.raises(
        UsageError, match=r"did not write an archive .*output in .*\.log:\n(.|\n)*Java"
    ):
        training.train(project)
    assert trainings(cache) == []


def test_a_training_reports_that_it_waits_for_another_one(java, cache, project):
    waits = Event()
    own = archive_for(launch_settings(project))
    assert own is not None
    with ThreadPoolExecutor() as pool:
        with training._exclusive_lock(cache, lambda: None):
            waiting = pool.submit(training.train, project, waits.set)
            assert waits.wait(PATIENCE)
            made(own)
        assert waiting.result(PATIENCE).seconds == 0


def test_an_archive_is_made_where_the_secrets_of_a_project_are_not_known(java, project):
    (project.root / "logdriven.yaml").write_text("""
project: shop
warehouse: s3://lake/shop
storage: {s3.access-key-id: "${env:NOBODY_HAS_IT}"}
spark: {config: {spark.authenticate.secret: "${env:NOBODY_HAS_IT}", spark.driver.memory: 2g}}
""")
    with pytest.raises(UsageError, match="did not write an archive"):  # which this Java never does
        training.train(load_project(project.root))
    assert archive_for({"spark.driver.memory": "2g"} | launch_settings(project)).log.exists()


def test_a_copy_of_an_archive_lies_where_settings_can_name_it(java, tmp_path):
    own = made(archive())
    training.copy_archive(own.file, tmp_path / "spark.jsa")
    assert (tmp_path / "spark.jsa").read_bytes() == own.file.read_bytes()
    assert (tmp_path / "spark.jsa").stat().st_mode & 0o777 == 0o644
    with pytest.raises(UsageError, match="cannot write"):
        training.copy_archive(own.file, tmp_path / "nowhere" / "spark.jsa")


@pytest.mark.usefixtures("long", "spark_processes")
def test_spark_warm_makes_an_archive_once_which_runs_then_use(cache, project):
    for n in range(9):
        cache.mkdir(mode=0o700, exist_ok=True)
        (cache / f"spark-4.0.0-java-17-{n}.jsa").touch(mode=0o600)
        os.utime(cache / f"spark-4.0.0-java-17-{n}.jsa", (n, n))
    words = [sys.executable, "-m", "logdriven_dagster.cli", "spark", "warm", "-p", project.root]
    words += ["--copy", project.root / "copy"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [each.communicate()[0] for each in both]
    assert sorted(" made in " in line for line in told) == [False, True], told
    own = archive_for(launch_settings(project))
    assert own is not None
    assert own.file.stat().st_mode & 0o777 == 0o644  # a link to the copy
    assert len(list(cache.glob("*.jsa"))) + len(list(cache.glob("*.aot"))) == 5
    assert len(list(cache.glob("*.crc32"))) == 1  # the others were made by hand
    assert (project.root / "copy").read_bytes() == own.file.read_bytes()
    assert trainings(cache) == []
    _assert_executors_use(project)
    out, _ = run(launch_settings(project)).communicate(timeout=PATIENCE)
    (flag, *_) = json.loads(out)[OPTIONS].split()
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    version = subprocess.run([java, flag, "-version"], capture_output=True, text=True, check=True)
    assert "warning" not in version.stderr


def _assert_executors_use(project: Project) -> None:
    # One file for each process: an executor that starts while the run ends would take the name.
    logs = project.root / "classes-%p.log"
    (project.root / "logdriven.yaml").write_text(f"""
project: shop
spark:
  master: local-cluster[1,1,512]
  config:
    spark.executor.memory: 512m
    spark.executor.extraJavaOptions: -Xlog:class+load:file={logs}
""")
    words = [sys.executable, "-c", A_RUN_WITH_AN_EXECUTOR, project.root]
    variables = {**os.environ, "SPARK_WORKER_DIR": str(project.root / "work")}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["9"]
    lines = [
        line for log in project.root.glob("classes-*.log") for line in log.read_text().splitlines()
    ]
    loaded = [line for line in lines if " org.apache.spark.SparkEnv " in line]
    assert loaded
    assert all("shared objects file" in line for line in loaded)


A_SMALL_RUN = """
import sys
print("written")
from logdriven_dagster.config import load_project
from logdriven_dagster.engine.spark.classic.archives.archive import archive_for
from logdriven_dagster.engine.spark.classic.archives.training import train_at_exit
from logdriven_dagster.engine.spark.settings import launch_settings
project = load_project(sys.argv[1])
train_at_exit(project, archive_for(launch_settings(project)))
"""


def small_run(project: Project) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", A_SMALL_RUN, str(project.root)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def trainings_of_runs(cache: Path) -> Iterator[Callable[[], list[psutil.Process]]]:
    """The processes of trainings that go on. They work in the folder of archives or below.

    They end with the test: on a busy machine, work of the lowest priority takes long.
    """

    def ask() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(cache):
                    found.append(process)
        return found

    yield ask
    for process in ask():
        with suppress(psutil.NoSuchProcess):
            process.kill()


def test_the_end_of_a_run_does_not_wait_for_the_training(java, project, trainings_of_runs):
    """A reader of the run's output sees its end, as `logdriven run | cat` or Dagster does."""
    out, _ = small_run(project).communicate(timeout=PATIENCE)
    assert out == "written\n"
    assert trainings_of_runs()


def test_runs_that_end_at_once_start_one_training(java, project, trainings_of_runs):
    for run in [small_run(project) for _ in range(3)]:
        run.communicate(timeout=PATIENCE)
    going = [process.cmdline() for process in trainings_of_runs()]
    assert sum(training.__name__ in words for words in going) == 1


def test_a_training_does_without_the_project_and_leaves_the_reason_of_its_failure(
    java, cache, project
):
    own = archive_for(launch_settings(project))
    assert own is not None
    shutil.rmtree(project.root)
    words = [sys.executable, "-m", training.__name__, training._serialize(own)]
    subprocess.run(words, capture_output=True, check=False)
    assert "JAVA_GATEWAY_EXITED" in own.log.read_text()  # this Java cannot start


@pytest.mark.skipif(sys.platform != "linux", reason="these files belong to Linux")
def test_a_training_gives_way_to_all_sessions_and_linux_ends_it_first(
    java, project, trainings_of_runs
):
    """Linux divides processor time among sessions before it looks at priorities."""
    small_run(project).communicate(timeout=PATIENCE)
    (process, *_) = trainings_of_runs()
    files = [Path(f"/proc/{process.pid}/{name}") for name in ("oom_score_adj", "autogroup")]
    found = [file.read_text().split()[-1] for file in files if file.exists()]
    assert process.nice() == 19
    assert found[0] == "1000"
    assert set(found[1:]) <= {"19"}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, project: Project) -> Callable[[], bool]:
    """Whether a small run would start a training when it ends."""

    def ask() -> bool:
        registered: list[object] = []
        monkeypatch.setattr(training.atexit, "register", lambda *given: registered.append(given))
        training.train_at_exit(project, archive())
        return bool(registered)

    return ask


def test_a_training_starts_by_itself_if_it_has_never_been_tried(java: Path, started):
    assert started()


def test_the_status_shows_the_archive(java: Path, project: Project):
    own = archive_for(launch_settings(project))
    assert own is not None

    def status(*options: str) -> str:
        return CliRunner().invoke(app, ["status", "-p", str(project.root), *options]).output

    assert "not made yet; run `logdriven spark warm`" in status()
    own.log.write_text("the disk is full")
    assert f"could not be made; output in {own.log}" in status()
    own.log.unlink()
    made(own)
    assert f"the archive of Spark's classes: {own.file}, 0 MB" in status()
    assert json.loads(status("--json"))["archive"] == {
        "file": str(own.file),
        "usable": True,
        "megabytes": 0,
        "log": None,
    }


@pytest.mark.parametrize("variable", ["CI", "JENKINS_URL", "TF_BUILD"])
def test_no_training_starts_by_itself_in_ci(
    java: Path, started, monkeypatch: pytest.MonkeyPatch, variable: str
):
    monkeypatch.setenv(variable, "true")
    assert not started()


def test_no_training_starts_by_itself_in_a_container_that_ends_with_the_run(
    java: Path, started, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert not started()


@pytest.mark.parametrize(
    ("folder", "limit", "usage", "cache"),
    [
        ("", "memory.max", "memory.current", "file 300"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache 300"),
    ],
    ids=["v2", "v1"],
)
def test_available_memory_ends_at_the_limit_of_the_container(
    tmp_path: Path, folder: str, limit: str, usage: str, cache: str
):
    group = tmp_path / "groups" / folder
    group.mkdir(parents=True)
    (group / limit).write_text("1000\n")
    (group / usage).write_text("900\n")
    (group / "memory.stat").write_text(f"anon 600\n{cache}\n")
    assert available_memory(tmp_path / "groups") == 400
    (group / limit).write_text(str(2**63 - 4096))
    assert available_memory(tmp_path / "groups") > 1000
    if not folder:
        (group / limit).write_text("max\n")
        assert available_memory(tmp_path / "groups") > 1000


@pytest.mark.parametrize("missing", ["memory", "disk", "log"])
def test_no_training_starts_without_memory_disk_or_a_place_for_its_log(
    java: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, missing: str
):
    begun: list[object] = []
    monkeypatch.setattr(training.psutil, "Popen", lambda *given, **_: begun.append(given))
    own = archive()
    if missing == "memory":
        monkeypatch.setattr(training, "available_memory", lambda: 1_900_000_000)
    elif missing == "disk":
        usage = shutil._ntuple_diskusage(10**12, 10**12, 10**8)
        monkeypatch.setattr(training.shutil, "disk_usage", lambda _: usage)
    else:
        own.log.mkdir()
        os.utime(own.log, (0, 0))
    training._start_training(own)
    assert begun == []


def test_no_training_starts_if_another_run_has_made_the_archive(java: Path, monkeypatch):
    begun: list[object] = []
    monkeypatch.setattr(training.psutil, "Popen", lambda *given, **_: begun.append(given))
    training._start_training(made(archive()))
    assert begun == []


def test_a_training_that_failed_is_repeated_after_a_day(java: Path, started):
    archive().log.write_text("the disk is full")
    assert not started()
    yesterday = time.time() - 86_401
    os.utime(archive().log, (yesterday, yesterday))
    assert started()
    tomorrow = time.time() + 86_401
    os.utime(archive().log, (tomorrow, tomorrow))  # the clock was wrong
    assert started()


def test_no_training_starts_by_itself_if_archives_are_made_by_hand(java: Path, tmp_path: Path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "logdriven.yaml").write_text("project: shop\nspark: {archive: manual}")
    by_hand = load_project(tmp_path / "shop")
    before = atexit._ncallbacks()
    training.train_at_exit(by_hand, archive())
    assert atexit._ncallbacks() == before
