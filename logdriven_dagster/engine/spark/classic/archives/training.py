"""Training of class data archives of Spark: by `logdriven spark warm`, or after a small run."""

import atexit
import fcntl
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.spark.classic.archives import workload
from logdriven_dagster.engine.spark.classic.archives.archive import (
    DEPENDS_ON,
    Archive,
    archive_for,
    archives_in,
)
from logdriven_dagster.engine.spark.classic.installation import refuse_client_alone
from logdriven_dagster.engine.spark.classic.java import ensure_java
from logdriven_dagster.engine.spark.settings import launch_settings
from logdriven_dagster.errors import UsageError
from logdriven_dagster.private_files import private_file
from logdriven_dagster.processes import available_memory, lower_priority

_LONGEST_SECONDS = 3600.0
"""On a busy machine, a training in the background takes many times its minute."""
_MOST_ARCHIVES = 5
"""Number of archives to keep, of up to 220 MB each. A running JVM keeps the file that it uses."""
_DRAFTS = ".training-"
_LOG_TAIL = 2000
_PAUSE_SECONDS = 86_400.0
"""Time after which a training in the background that made no archive is repeated."""
_NEEDED_MEMORY, _NEEDED_DISK = 2_000_000_000, 1_000_000_000
"""Bytes that must be available when a training starts in the background."""
_CI = ("CI", "JENKINS_URL", "TEAMCITY_VERSION", "TF_BUILD", "CODEBUILD_BUILD_ID")
"""Variables that CI services set; their machines rarely keep an archive."""
_FIRST_PROCESS = 1
"""The process id of the first process of a container, which ends with it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trained:
    """A usable archive and the time that its training took."""

    file: Path
    seconds: float
    """0 for an archive that existed already."""


def find_archive(project: Project) -> Archive | None:
    """Return the archive of a project's Spark, made or not; None if it cannot have one.

    Raises UsageError if Spark or Java is not installed.
    """
    refuse_client_alone()
    ensure_java()
    return archive_for(launch_settings(_without_secrets(project)))


def train(project: Project, report_wait: Callable[[], None] = lambda: None) -> Trained:
    """Make the archive of a project's Spark unless it exists, and return it.

    Calls `report_wait` before it waits for a concurrent training of this user. Raises UsageError if
    this Spark cannot have an archive, or if Java makes none.
    """
    archive = find_archive(project)
    if archive is None:
        raise UsageError(
            "cannot make an archive of Spark's classes: XDG_CACHE_HOME is not a "
            "writable folder, a folder on Spark's class path has files (conf, "
            "SPARK_CONF_DIR, HADOOP_CONF_DIR), spark.driver.extraJavaOptions has "
            "options for archives, or this Java has no archive of its own (run "
            "`java -Xshare:dump`, or use Java 25)"
        )
    return _ensure(archive, report_wait)


def train_at_exit(project: Project, archive: Archive) -> None:
    """Start a training in the background when this process ends, for a JVM without an archive.

    Does nothing if `spark.archive` is manual, in CI, in the first process of a container, or if a
    training is running or has failed within a day. When the process ends, enough memory and disk
    must be available. The training has the lowest priority. It does not need the project.
    """
    is_wanted = project.config.spark.archive == "auto" and os.getpid() != _FIRST_PROCESS
    if is_wanted and not any(map(os.environ.get, _CI)) and not _was_tried(archive):
        atexit.register(_start_training, archive)


def _was_tried(archive: Archive) -> bool:
    """Return whether a training is running, or has failed a short time ago."""
    try:
        age = time.time() - archive.log.stat().st_mtime
    except OSError:
        return False
    return 0 <= age < _PAUSE_SECONDS


def _start_training(archive: Archive) -> None:
    """Start a training in a process of its own, unless another run has started one.

    The log of the training marks the attempt: without a place for it, none starts.
    """
    folder = archive.file.parent
    with suppress(OSError):
        if _was_tried(archive) or archive.can_be_used() or not _has_room(folder):
            return
        with private_file(archive.log) as log:
            started = psutil.Popen(
                [sys.executable, "-m", __name__, _serialize(archive)],
                cwd=folder,  # that of the run may be removed or unmounted
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        lower_priority(started)
        logger.info("archive_training_started", extra={"pid": started.pid})


def _has_room(folder: Path) -> bool:
    disk = shutil.disk_usage(folder).free
    return disk >= _NEEDED_DISK and available_memory() >= _NEEDED_MEMORY


def _serialize(archive: Archive) -> str:
    return json.dumps([str(archive.file), dict(archive.settings)])


def copy_archive(archive: Path, place: Path) -> None:
    """Copy an archive to `place`, readable by all users; raise UsageError if that fails."""
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        try:
            os.link(archive, draft)  # a container image stores it once
        except OSError:
            shutil.copyfile(archive, draft)
        draft.chmod(0o644)
        draft.replace(place)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"cannot write {place}: {error}") from error


def _without_secrets(project: Project) -> Project:
    """Drop settings that archives do not depend on, such as secrets missing in an image build."""
    spark = project.config.spark
    kept = {name: value for name, value in spark.config.items() if name in DEPENDS_ON}
    spark = spark.model_copy(update={"config": kept})
    return replace(
        project, config=project.config.model_copy(update={"spark": spark, "storage": {}})
    )


def _ensure(archive: Archive, report_wait: Callable[[], None]) -> Trained:
    with _exclusive_lock(archive.file.parent, report_wait):
        seconds = 0.0 if archive.can_be_used() else _train(archive)
        archive.log.unlink(missing_ok=True)
    return Trained(archive.file, seconds)


def _train(archive: Archive) -> float:
    began, folder = time.monotonic(), archive.file.parent
    for left in folder.glob(f"{_DRAFTS}*"):  # of a training that was killed
        shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=_DRAFTS, dir=folder, ignore_cleanup_errors=True) as work:
        draft = Path(work, archive.file.name)
        with private_file(archive.log) as log:
            given = json.dumps([archive.settings_to_make(draft), work])
            process = psutil.Popen(
                [sys.executable, "-m", workload.__name__, given],
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                code = process.wait(_LONGEST_SECONDS)
            except psutil.TimeoutExpired:
                code = -1
            finally:
                _kill(process)
        if code != 0 or not draft.is_file():
            said = redact(archive.log.read_text(errors="replace").strip()[-_LOG_TAIL:])
            problem = f"Java did not write an archive of Spark's classes; output in {archive.log}"
            raise UsageError(f"{problem}:\n{said or 'nothing'}")
        archive.replace(draft)
    _tidy(folder)
    return time.monotonic() - began


def _kill(process: psutil.Popen) -> None:
    """Kill a process and the JVM that it has started, if they still run."""
    with suppress(psutil.NoSuchProcess):
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def _tidy(folder: Path) -> None:
    """Remove the least recently used archives."""
    with suppress(OSError):
        for archive in archives_in(folder)[:-_MOST_ARCHIVES]:
            archive.remove()


@contextmanager
def _exclusive_lock(folder: Path, report_wait: Callable[[], None]) -> Iterator[None]:
    """Wait for the lock that lets one process of this user make archives at a time."""
    with (folder / "training.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":  # started by `_start_training`, with the log as its output
    name, settings = json.loads(sys.argv[1])
    _ensure(Archive(Path(name), settings), lambda: None)
