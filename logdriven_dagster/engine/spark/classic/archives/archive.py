"""Class data archives of Spark: which archive a JVM can use, and the options that enable it.

Java 25 keeps loaded classes and profiles of their methods in an "AOT cache", older releases keep
classes alone ("class data sharing"). Archives are stored below `$XDG_CACHE_HOME/logdriven`. No run
records one: `logdriven spark warm` does (`training`), which a small run starts in the background.
The executors of a cluster on this machine use the archive of their driver, since Spark starts both
with one class path.
"""

import json
import logging
import os
import re
import shlex
import shutil
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from logdriven_dagster.engine.spark.classic.installation import pyspark_version
from logdriven_dagster.engine.spark.classic.java import cache_folder
from logdriven_dagster.engine.spark.mode import is_one_jvm
from logdriven_dagster.private_files import is_ours, private_file

_PROFILING_JAVA = 25
"""The oldest Java version whose archives hold method profiles."""
_AOT, _CDS = ".aot", ".jsa"
_BASE_ARCHIVES = "lib/server/classes*.jsa"
"""Java's own archives, which an archive of an older Java extends."""
_CHUNK = 1 << 20
_TO_USE = {_AOT: "-XX:AOTCache", _CDS: "-XX:SharedArchiveFile"}
_TO_MAKE = {_AOT: "-XX:AOTCacheOutput", _CDS: "-XX:ArchiveClassesAtExit"}
_QUIET = {
    _AOT: ("-Xlog:aot*=off", "-Xlog:cds*=off"),
    _CDS: ("-Xlog:cds=off", "-Xlog:cds+dynamic=off"),
}
"""Options that silence Java's log lines about an archive that does not fit after all."""

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
"""Settings that a training run takes over; none of them holds a secret."""
DEPENDS_ON = (*_KEPT, _OPTIONS)
"""All settings that determine which archive a JVM uses."""
_LOOPBACK = re.compile(r"127\.[\d.]+|\[?::1\]?|localhost")
_SHAPES_CLASSES = re.compile(r"-Xm[sx]|-XX:[+-]?(Use|ObjectAlignment|G1HeapRegion)|--|-Dlog4j2")
"""JVM options that an archive depends on. Other options may write files, or hold secrets."""
_SPEAKS_OF_ARCHIVES = re.compile(r"-Xshare|-XX:\S*(Archive|AOT)")
_OPTIONS_OF_EVERY_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_ON_CLASS_PATH = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Archive:
    """The location of an archive, whether it exists or not."""

    file: Path
    settings: Mapping[str, str]
    """Settings of the JVM that makes the archive."""

    @property
    def log(self) -> Path:
        """Output of the training run; the file remains if the training failed."""
        return self.file.with_suffix(".log")

    @property
    def _checksum(self) -> Path:
        return self.file.with_suffix(".crc32")

    def can_be_used(self) -> bool:
        """Return whether the archive exists, is intact, and no other user could have written it.

        Java does not check the contents: it would crash on an archive that lost a part.
        """
        if not self.file.exists():
            return False
        if not (is_ours(self.file.parent) and is_ours(self.file)):
            reason = "not only ours"
        elif not self._is_intact():
            reason = "damaged"
        else:
            return True
        logger.debug("archive_refused", extra={"file": str(self.file), "reason": reason})
        return False

    def _is_intact(self) -> bool:
        try:
            return self._checksum.read_text() == _crc32(self.file)
        except (OSError, ValueError):
            return False

    def replace(self, draft: Path) -> None:
        """Move a new archive here. After a power failure, it is complete or it is not used."""
        draft.chmod(0o600)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        with private_file(self._checksum) as file:
            file.write(_crc32(draft))
        draft.replace(self.file)

    def remove(self) -> None:
        """Delete the archive with its checksum. A JVM that uses it keeps its contents."""
        self.file.unlink(missing_ok=True)
        self._checksum.unlink(missing_ok=True)

    def settings_to_use(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a JVM with this archive; mark it as most recently used.

        Executors on this machine use it, too. An archive that does not fit, because a worker has
        another version of Java or Spark, only adds a line to a file of the worker. That line is not
        silenced: an older Java would not start with the log names of a newer one.
        """
        with suppress(OSError):
            os.utime(self.file)
        use = shlex.quote(f"{_TO_USE[self.file.suffix]}={self.file}")
        found = _with_options(settings, _OPTIONS, use, *_QUIET[self.file.suffix])
        return _with_options(found, _EXECUTORS_OPTIONS, use) if _has_executors(found) else found

    def settings_to_make(self, draft: Path) -> dict[str, str]:
        """Return the settings of a JVM that writes an archive to `draft` when it ends."""
        make = shlex.quote(f"{_TO_MAKE[self.file.suffix]}={draft}")
        return _with_options(self.settings, _OPTIONS, make)


def archive_for(settings: Mapping[str, str]) -> Archive | None:
    """Find the archive of a JVM with such settings; return None if it cannot have one.

    That is the case if its options configure archives already (`-Xshare:off` disables them for a
    project), if its class path has a folder with files, which Java keeps out of archives, if its
    Java has no default archive, or if there is no cache folder.
    """
    try:
        options = shlex.split(settings.get(_OPTIONS, ""))
    except ValueError:  # Spark reports the error in them
        return None
    home = _java_home()
    release = home / "release"  # Java's description of itself
    class_path = _class_path(settings.get(_CLASS_PATH, ""))
    if any(map(_SPEAKS_OF_ARCHIVES.match, options)) or class_path is None or not release.is_file():
        return None
    java = re.search(r'JAVA_VERSION="(\d+)', release.read_text())
    if java is None:
        return None
    suffix = _AOT if int(java[1]) >= _PROFILING_JAVA else _CDS
    base = _described(sorted(home.glob(_BASE_ARCHIVES)))
    if suffix == _CDS and not base:
        return None
    try:
        folder = cache_folder()
    except OSError:
        return None
    shaping = [option for option in options if _SHAPES_CLASSES.match(option)]
    kept = {name: settings[name] for name in _KEPT if name in settings}
    identity: list[object] = [str(home), release.read_text(), pyspark_version()]
    identity += [shaping, class_path, base]
    identity += [kept.get("spark.driver.memory"), *map(os.environ.get, _OPTIONS_OF_EVERY_JAVA)]
    key = sha256(json.dumps(identity).encode()).hexdigest()[:12]
    name = f"spark-{pyspark_version()}-java-{java[1]}-{key}{suffix}"
    return Archive(folder / name, kept | {_OPTIONS: shlex.join(shaping)})


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a JVM, with its archive if there is one that it can use."""
    archive = archive_for(settings)
    usable = archive is not None and archive.can_be_used()
    return archive.settings_to_use(settings) if archive and usable else dict(settings)


def archives_in(folder: Path) -> list[Archive]:
    """Return all archives of a folder, the most recently used ones last."""
    found = [path for suffix in _TO_USE for path in folder.glob(f"spark-*{suffix}")]
    return [Archive(path, {}) for path in sorted(found, key=lambda path: path.stat().st_mtime)]


def _class_path(extra: str) -> list[tuple[str, int, int]] | None:
    """List the files of the class path with sizes and times; None if a folder in it has files."""
    home = _spark_home()
    given = os.pathsep.join([extra, *(os.environ.get(name, "") for name in _ON_CLASS_PATH)])
    paths = [home / "conf", *map(Path, filter(None, given.split(os.pathsep)))]
    if any(path.is_dir() and any(path.iterdir()) for path in paths):
        return None
    jars = sorted((home / "jars").glob("*.jar"))
    return _described(path for path in (*paths, *jars) if path.is_file())


def _described(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return path, size and time of each file."""
    return [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files]


def _crc32(file: Path) -> str:
    """Return the CRC-32 of a file; 200 MB take a tenth of a second."""
    value = 0
    with file.open("rb") as contents:
        while chunk := contents.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return f"{value:08x}"


def _spark_home() -> Path:
    package = find_spec("pyspark")
    return Path(os.environ.get("SPARK_HOME") or Path(str(package and package.origin)).parent)


def _java_home() -> Path:
    """Return the folder of the Java installation that Spark will start."""
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home else Path(shutil.which("java") or "/").resolve().parent.parent


def _has_executors(settings: Mapping[str, str]) -> bool:
    """Return whether executors on this machine may use the archive of their driver.

    No other machine reaches a driver that listens on the loopback interface. On another machine, a
    file of this name could belong to any user.
    """
    one_jvm = is_one_jvm(settings.get("spark.master", "local"))
    here = _LOOPBACK.fullmatch(settings.get(_DRIVER_HOST, ""))
    options = settings.get(_EXECUTORS_OPTIONS, "").split()
    return bool(here) and not one_jvm and not any(map(_SPEAKS_OF_ARCHIVES.match, options))


def _with_options(settings: Mapping[str, str], name: str, *options: str) -> dict[str, str]:
    """Add Java options to a setting, in front of its own options, which take precedence."""
    return dict(settings) | {name: " ".join([*options, settings.get(name, "")]).strip()}
