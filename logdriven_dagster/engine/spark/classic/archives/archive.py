"""An archive of Spark's classes: which one a JVM can use, and what it is started with to use it.

Java 25 keeps loaded classes and profiles of their methods in an "AOT cache", older ones classes
alone ("class data sharing"). Archives lie below `$XDG_CACHE_HOME/logdriven`. No run makes one:
`logdriven spark warm` does (`training`). The executors of a cluster on this machine use the archive
of their driver, since Spark starts both with one class path.
"""

import json
import logging
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from logdriven_dagster.engine.spark.classic.installation import pyspark_version
from logdriven_dagster.engine.spark.classic.java import cache_folder
from logdriven_dagster.engine.spark.mode import is_one_jvm
from logdriven_dagster.private_files import is_ours

_PROFILING_JAVA = 25
"""The oldest Java whose archives hold profiles of methods."""
_AOT, _CDS = ".aot", ".jsa"
_TO_USE = {_AOT: "-XX:AOTCache", _CDS: "-XX:SharedArchiveFile"}
_TO_MAKE = {_AOT: "-XX:AOTCacheOutput", _CDS: "-XX:ArchiveClassesAtExit"}
_QUIET = {
    _AOT: ("-Xlog:aot*=off", "-Xlog:cds*=off"),
    _CDS: ("-Xlog:cds=off", "-Xlog:cds+dynamic=off"),
}
"""What Java would say, among the lines of a run, of an archive that does not fit after all."""

_OPTIONS = "spark.driver.extraJavaOptions"
_EXECUTORS_OPTIONS = "spark.executor.extraJavaOptions"
_DRIVER_HOST = "spark.driver.host"
_CLASS_PATH = "spark.driver.extraClassPath"
_KEPT = (
    _CLASS_PATH,
    "spark.driver.bindAddress",
    _DRIVER_HOST,
    "spark.driver.memory",
    "spark.scheduler.mode",
    "spark.sql.catalogImplementation",
    "spark.ui.enabled",
)
"""Settings that a training takes over; none of them holds a secret."""
DEPENDS_ON = (*_KEPT, _OPTIONS)
"""All settings that say which archive a JVM has."""
_LOOPBACK = re.compile(r"127\.[\d.]+|\[?::1\]?|localhost")
_SHAPES_CLASSES = re.compile(r"-Xm[sx]|-XX:[+-]?(Use|ObjectAlignment|G1HeapRegion)|--|-Dlog4j2")
"""Options of a JVM that its archive depends on. Others may write files, or hold secrets."""
_SPEAKS_OF_ARCHIVES = re.compile(r"-Xshare|-XX:\S*(Archive|AOT)")
_OPTIONS_OF_EVERY_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_ON_CLASS_PATH = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Archive:
    """The place of an archive, whether it is there or not."""

    file: Path
    settings: Mapping[str, str]
    """Settings of the JVM that makes it."""

    @property
    def log(self) -> Path:
        """What its training says; it stays if that failed."""
        return self.file.with_suffix(".log")

    def can_be_used(self) -> bool:
        """Whether it is there, and nobody else could have written it."""
        if not self.file.exists():
            return False
        if is_ours(self.file.parent) and is_ours(self.file):
            return True
        logger.debug("archive_refused", extra={"file": str(self.file), "reason": "not only ours"})
        return False

    def settings_to_use(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a JVM with this archive, which is now the one used last.

        Executors on this machine have it, too. One that does not fit, because a worker has another
        Java or Spark, changes nothing but a line in a file of the worker. Nothing hides that line:
        an older Java would not start with the names of logs that a newer one has.
        """
        if not self.can_be_used():
            return dict(settings)
        with suppress(OSError):
            os.utime(self.file)
        use = f"{_TO_USE[self.file.suffix]}={self.file}"
        found = _with_options(settings, _OPTIONS, use, *_QUIET[self.file.suffix])
        return _with_options(found, _EXECUTORS_OPTIONS, use) if _has_executors(found) else found

    def settings_to_make(self, draft: Path) -> dict[str, str]:
        """Return the settings of a JVM that writes an archive to `draft` when it ends."""
        return _with_options(self.settings, _OPTIONS, f"{_TO_MAKE[self.file.suffix]}={draft}")


def archive_for(settings: Mapping[str, str]) -> Archive | None:
    """Find the archive of a JVM with such settings; None where it cannot have one.

    That is so where its options speak of archives already (`-Xshare:off` is how a project wants
    none), where its class path has a folder with files, which Java keeps out of archives, and where
    there is no place for it.
    """
    try:
        options = shlex.split(settings.get(_OPTIONS, ""))
    except ValueError:  # Spark will say what is wrong with them
        return None
    home = _java_home()
    release = home / "release"  # what this Java says of itself
    class_path = _class_path(settings.get(_CLASS_PATH, ""))
    if any(map(_SPEAKS_OF_ARCHIVES.match, options)) or class_path is None or not release.is_file():
        return None
    java = re.search(r'JAVA_VERSION="(\d+)', release.read_text())
    if java is None:
        return None
    try:
        folder = cache_folder()
    except OSError:
        return None
    shaping = [option for option in options if _SHAPES_CLASSES.match(option)]
    kept = {name: settings[name] for name in _KEPT if name in settings}
    identity: list[object] = [str(home), release.read_text(), pyspark_version()]
    identity += [shaping, class_path]
    identity += [kept.get("spark.driver.memory"), *map(os.environ.get, _OPTIONS_OF_EVERY_JAVA)]
    key = sha256(json.dumps(identity).encode()).hexdigest()[:12]
    suffix = _AOT if int(java[1]) >= _PROFILING_JAVA else _CDS
    name = f"spark-{pyspark_version()}-java-{java[1]}-{key}{suffix}"
    return Archive(folder / name, kept | {_OPTIONS: shlex.join(shaping)})


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a JVM, with its archive if there is one that it can use."""
    archive = archive_for(settings)
    return dict(settings) if archive is None else archive.settings_to_use(settings)


def archives_in(folder: Path) -> list[Path]:
    """Return all archives, those used last at the end."""
    found = [path for suffix in _TO_USE for path in folder.glob(f"spark-*{suffix}")]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def _class_path(extra: str) -> list[tuple[str, int, int]] | None:
    """Name what classes come from, with sizes and times; None if a folder has files of its own."""
    home = _spark_home()
    given = os.pathsep.join([extra, *(os.environ.get(name, "") for name in _ON_CLASS_PATH)])
    paths = [home / "conf", *map(Path, filter(None, given.split(os.pathsep)))]
    if any(path.is_dir() and any(path.iterdir()) for path in paths):
        return None
    files = [path for path in (*paths, *sorted((home / "jars").glob("*.jar"))) if path.is_file()]
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def _spark_home() -> Path:
    package = find_spec("pyspark")
    return Path(os.environ.get("SPARK_HOME") or Path(str(package and package.origin)).parent)


def _java_home() -> Path:
    """Return the folder of the Java that Spark will start."""
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home else Path(shutil.which("java") or "/").resolve().parent.parent


def _has_executors(settings: Mapping[str, str]) -> bool:
    """Whether there are executors on this machine that may have the archive of their driver.

    Nobody else reaches a driver that listens on the loopback interface. On another machine a file
    of this name could be anybody's.
    """
    one_jvm = is_one_jvm(settings.get("spark.master", "local"))
    here = _LOOPBACK.fullmatch(settings.get(_DRIVER_HOST, ""))
    options = settings.get(_EXECUTORS_OPTIONS, "").split()
    return bool(here) and not one_jvm and not any(map(_SPEAKS_OF_ARCHIVES.match, options))


def _with_options(settings: Mapping[str, str], name: str, *options: str) -> dict[str, str]:
    """Those of the settings come later and win."""
    return dict(settings) | {name: " ".join([*options, settings.get(name, "")]).strip()}
