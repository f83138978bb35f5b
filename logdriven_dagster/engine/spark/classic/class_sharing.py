"""Class data sharing: a JVM that finds its classes prepared starts in about two thirds of the time.

From Java 19 on a JVM looks after its archive by itself. An older one writes it when it ends, which
must not happen where others may be reading: it goes to a name of its own, and a later start puts it
in place. Archives lie below `$XDG_CACHE_HOME/logdriven`; one that does not fit is not used.
"""

import os
import re
import shutil
import time
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from logdriven_dagster.engine.spark.classic.java import cache_folder
from logdriven_dagster.private_files import is_ours

_SELF_ARCHIVING_JAVA = 19
_QUIET = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
_WRITTEN_AFTER_SECONDS = 60
"""Nobody writes to a file any more that has not changed for so long."""
_MOST_ARCHIVES = 5
"""How many stay, those in work among them: 180 MB each. A JVM keeps the one that it uses."""


def archive_options(program: str, class_path: str) -> list[str]:
    """What lets a JVM use an archive, or make one; nothing where there is no place for it.

    `program` and `class_path`: what it runs, since others have other classes.
    """
    release = _java_release()
    java = re.search(r'JAVA_VERSION="(\d+)', release)
    if java is None:
        return []
    try:
        cache = cache_folder()
    except OSError:
        return []
    fits = sha256(f"{release}{class_path}".encode()).hexdigest()[:8]
    archive = cache / f"{program}-{version('pyspark')}-java-{java[1]}-{fits}.jsa"
    _tidy(archive)
    if int(java[1]) >= _SELF_ARCHIVING_JAVA:
        return ["-XX:+AutoCreateSharedArchive", f"-XX:SharedArchiveFile={archive}", *_QUIET]
    _put_in_place(archive)
    if archive.is_file():
        return [f"-XX:SharedArchiveFile={archive}", *_QUIET]
    return [f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()}", *_QUIET]


def _tidy(archive: Path) -> None:
    """Remove archives that others could have written, and those not used for longest."""
    with suppress(OSError):
        if is_ours(archive):
            archive.touch()
        found = [(path.stat().st_mtime, path) for path in archive.parent.glob("*.jsa*")]
        newest = [path for _, path in sorted(found, reverse=True)[:_MOST_ARCHIVES]]
        for _, path in found:
            if path not in newest or not is_ours(path):
                path.unlink()


def _put_in_place(archive: Path) -> None:
    """Take the archive that a JVM has written since, if it is whole."""
    for draft in archive.parent.glob(f"{archive.name}.*"):
        with suppress(OSError):  # another start takes it at this moment
            if time.time() - draft.stat().st_mtime < _WRITTEN_AFTER_SECONDS:
                continue
            with draft.open("rb") as file:
                # The head is written last.
                whole = any(file.read(4))
            if whole and not archive.exists():
                draft.replace(archive)
            else:
                draft.unlink()


def _java_release() -> str:
    """What the Java that Spark will start says of itself; nothing if it has no such file."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "/")
    release = (Path(home) if home else java.resolve().parent.parent) / "release"
    return release.read_text() if release.is_file() else ""
