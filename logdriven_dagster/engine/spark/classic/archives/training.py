"""Making an archive of Spark's classes: at once, or after a run that found none.

As a program (`python -m`) this is what such a run leaves behind: it waits until the run has ended,
and works when nobody else wants the processor.
"""

import atexit
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
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
from logdriven_dagster.private_files import guard_umask, private_file

_LONGEST_SECONDS = 600.0
_AGAIN_AFTER_SECONDS = 24 * 3600.0
"""Runs leave a training alone for so long after one that failed, or began and still goes on."""
_MOST_ARCHIVES = 5
"""How many stay: up to 220 MB each. A JVM keeps the one that it uses."""
_DRAFTS = ".training-"
_POLL_SECONDS = 0.2
_PATIENTLY, _AT_ONCE = fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB
_LOG_TAIL = 2000


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """Return a JVM's settings with its archive; one that is missing is made when we have ended.

    Not where `CI` is set: what is made there is thrown away.
    """
    archive = archive_for(settings)
    if archive is None:
        return dict(settings)
    if not archive.can_be_used() and not os.environ.get("CI") and not _was_tried(archive):
        atexit.unregister(_leave_behind)
        atexit.register(_leave_behind, archive)
    return archive.settings_to_use(settings)


@dataclass(frozen=True, slots=True)
class Trained:
    """An archive that can be used, and how long it took to make it."""

    file: Path
    seconds: float
    """0 for one that was there."""


def train(project: Project) -> Trained:
    """Make the archive of a project's Spark unless it is there; another training is waited for.

    UsageError where there can be none, or Java makes none.
    """
    refuse_client_alone()
    ensure_java()
    archive = archive_for(launch_settings(_without_secrets(project)))
    if archive is None:
        raise UsageError(
            "this Spark can have no archive of its classes: XDG_CACHE_HOME names no folder that we "
            "can write to, a folder on Spark's class path has files (conf, SPARK_CONF_DIR, "
            "HADOOP_CONF_DIR), or spark.driver.extraJavaOptions speaks of archives"
        )
    with _alone(archive.file.parent, _PATIENTLY):
        seconds = 0.0 if archive.can_be_used() else _train(archive)
    return Trained(archive.file, seconds)


def copy_archive(archive: Path, place: Path) -> None:
    """Put a copy where settings can name it, for whoever runs Spark there to read."""
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        try:
            os.link(archive, draft)  # an image has it once
        except OSError:
            shutil.copyfile(archive, draft)
        draft.chmod(0o644)
        draft.replace(place)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"cannot write {place}: {error}") from error


def _without_secrets(project: Project) -> Project:
    """Leave out what no archive depends on, and what an image that is built does not know yet."""
    spark = project.config.spark
    kept = {name: value for name, value in spark.config.items() if name in DEPENDS_ON}
    spark = spark.model_copy(update={"config": kept})
    return replace(
        project, config=project.config.model_copy(update={"spark": spark, "storage": {}})
    )


def _leave_behind(archive: Archive) -> None:
    """Start this module as a program that outlives us."""
    given = json.dumps([os.getpid(), str(archive.file), archive.settings])
    with suppress(OSError):  # a run that has succeeded must not fail by this
        subprocess.Popen(
            [sys.executable, "-m", __name__, given],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _train_behind(run: int, archive: Archive) -> None:
    """Make an archive once a run has ended, unless somebody makes one; its log tells failures."""
    _give_way()
    while os.getppid() == run:
        time.sleep(_POLL_SECONDS)
    with suppress(BlockingIOError, UsageError), _alone(archive.file.parent, _AT_ONCE):
        if not archive.can_be_used() and not _was_tried(archive):
            _train(archive)


def _give_way() -> None:
    """Take the processor and the disks only when nobody else wants them."""
    os.nice(19)
    with suppress(OSError):  # Linux weighs sessions against each other, where it groups them
        Path("/proc/self/autogroup").write_text("19")
    if hasattr(psutil, "IOPRIO_CLASS_IDLE"):
        with suppress(OSError, psutil.Error):
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def _was_tried(archive: Archive) -> bool:
    """Whether a training of late has left its log, which one that succeeds removes."""
    with suppress(OSError):
        return time.time() - archive.log.stat().st_mtime < _AGAIN_AFTER_SECONDS
    return False


def _train(archive: Archive) -> float:
    began, folder = time.monotonic(), archive.file.parent
    for left in folder.glob(f"{_DRAFTS}*"):  # by a training that was killed
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
            )  # in our session: Linux would give another one its full weight
            try:
                code = process.wait(_LONGEST_SECONDS)
            except psutil.TimeoutExpired:
                code = -1
            finally:
                _kill(process)
        if code != 0 or not draft.is_file():
            said = redact(archive.log.read_text(errors="replace").strip()[-_LOG_TAIL:])
            problem = f"Java made no archive of Spark's classes; {archive.log} says"
            raise UsageError(f"{problem}:\n{said or 'nothing'}")
        draft.chmod(0o600)
        draft.replace(archive.file)
    archive.log.unlink()
    _tidy(folder)
    return time.monotonic() - began


def _kill(process: psutil.Popen) -> None:
    """End a process and the JVM that it has started, if they still run."""
    with suppress(psutil.NoSuchProcess):
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def _tidy(folder: Path) -> None:
    """Remove the archives that were not used for longest."""
    with suppress(OSError):
        for path in archives_in(folder)[:-_MOST_ARCHIVES]:
            path.unlink()


@contextmanager
def _alone(folder: Path, how: int) -> Iterator[None]:
    """Hold the lock of this user's trainings. BlockingIOError: another one does."""
    with (folder / "training.lock").open("w") as file:
        fcntl.flock(file, how)
        yield


if __name__ == "__main__":
    guard_umask()
    run, file, options = json.loads(sys.argv[1])
    _train_behind(run, Archive(Path(file), options))
