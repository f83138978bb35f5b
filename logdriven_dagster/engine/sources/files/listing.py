"""The files that a source's path or pattern matches in Spark."""

import re
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.types.files import FilesSource
from logdriven_dagster.engine.failures import is_transient
from logdriven_dagster.engine.sources.file_rows import local_path, normalize_scheme
from logdriven_dagster.engine.sources.files.arrivals import arrivals
from logdriven_dagster.engine.sources.files.folders import names_below, values_in_folders
from logdriven_dagster.engine.sources.known_sources import (
    MOST_FILES,
    PATTERN,
    VISIBLE,
    FileVersions,
    Fingerprint,
    Key,
    fingerprint,
    is_hidden,
)
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.storage.data_files import DataFile, DataFiles
from logdriven_dagster.engine.storage.locations import file_system, name_of
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from logdriven_dagster.model.files import FoundFile
from logdriven_dagster.model.source_rows import FileVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHOOSE_FILES = {"pathglobfilter", "modifiedbefore", "modifiedafter", "recursivefilelookup"}
"""Options by which Spark skips files of a folder."""


def without_hidden(path: str) -> str:
    """Return a pattern whose leading placeholders do not match hidden names.

    Below a path Spark skips folders of unfinished writers, such as `_temporary`, but a pattern
    matches them.
    """
    parts = (re.sub(r"^[*?]", _visible, part) for part in path.split("/"))
    return "/".join(parts)


def _visible(placeholder: "re.Match[str]") -> str:
    return f"{VISIBLE}{placeholder[0].replace('?', '')}"


def local_files(reading: Reading, key: Key) -> Fingerprint | None:
    """Return the local files of a source; None if there are too many or only Spark can list them.

    Files below a folder are not read if no folder above them has `=` in its name.
    """
    if is_remote(key.path) or not (_chooses_files(key) or PATTERN & set(key.path)):
        return _below(reading, key.path)
    return reading.listed.remember(("found", key), lambda: _list_by_spark(key, reading.spark))


def _ask_spark(key: Key, spark: "SparkSession") -> Collection[str]:
    reader = spark.read.format("binaryFile").options(**dict(key.options))
    return mode_of(spark).input_files(reader.load(key.path))


def _list_by_spark(key: Key, spark: "SparkSession") -> Fingerprint | None:
    uris = _ask_spark(key, spark)
    if len(uris) > MOST_FILES or not all(uri.startswith("file:") for uri in uris):
        return None
    found = set()
    for uri in uris:
        path = Path(local_path(uri))
        if not path.is_file():
            return None  # a file of another machine, where a server reads
        stat = path.stat()
        found.add((str(path), stat.st_size, stat.st_mtime_ns))
    return frozenset(found)


def find_data_files(reading: Reading, source: FilesSource, key: Key) -> DataFiles | None:
    """Return the files of a source; None if they are not cheap to list, or only by Spark.

    Files in object stores need the project's `storage` settings.
    """
    if reading.table.incremental.registers_files:
        files = [_find_registered(reading, file) for file in reading.run.files]
        return frozenset(file for file in files if file) if None not in files else None
    what = ("data files", key)
    return reading.listed.remember(what, lambda: _find_data_files(reading, source, key))


def _find_data_files(reading: Reading, source: FilesSource, key: Key) -> DataFiles | None:
    if not is_remote(key.path):
        local = local_files(reading, key)
        return None if local is None else frozenset(DataFile(*each) for each in local)
    if not reading.project.storage:
        return None
    found = remote_files(reading, source, key)
    if not _are_versions(found):
        return None
    if PATTERN & set(key.path):
        uris = _ask_spark(key, reading.spark)
        if set(map(local_path, uris)) != {file.location for file in found}:
            return None
    return frozenset(_open_remote(reading, file) for file in found)


def _find_registered(reading: Reading, file: FoundFile) -> DataFile | None:
    if is_remote(file.location):
        return _open_remote(reading, file) if reading.project.storage else None
    return next((DataFile(*each) for each in fingerprint(file.location) or ()), None)


def _open_remote(reading: Reading, file: FoundFile) -> DataFile:
    """Return a file of an object store; its system is PyIceberg's one for the whole store."""
    system = reading.listed.remember(
        ("system", urlsplit(file.location)[:2]),
        lambda: file_system(file.location, reading.project.storage),
    )
    changed = round(file.created.timestamp() * 1e9)
    return DataFile(file.location, file.size, changed, _hash_tag(file), system)


def _hash_tag(file: FoundFile) -> int:
    """Return a number that differs between versions of a file in an object store."""
    return int.from_bytes(sha256(file.hash.encode()).digest()[:7], "big")


def files_below(reading: Reading, source: FilesSource, key: Key) -> Fingerprint | None:
    """Return the files that Spark reads at a path; None if only Spark can list them."""
    capabilities = mode_of(reading.spark).capabilities
    if not capabilities.lists_files_eagerly or reading.table.incremental.registers_files:
        return None
    if is_remote(key.path):
        if PATTERN & set(key.path):
            return None
        found = find_data_files(reading, source, key)
        return None if found is None else frozenset(file.version for file in found)
    if _chooses_files(key):
        return None
    if PATTERN & set(key.path):
        return reading.listed.remember(("matched", key.path), lambda: _matched(reading, key.path))
    files = _below(reading, key.path)
    return files and reading.listed.remember(
        ("data", key.path), lambda: frozenset(each for each in files if _is_data(each[0]))
    )


def refuse_files_too_deep(reading: Reading, source: FilesSource, key: Key) -> None:
    """Raise TerminalStepError if all files of a folder lie in plain folders below it.

    Spark reads folders below the path only if their names have columns, such as `day=1`.
    """
    if _chooses_files(key) or PATTERN & set(key.path):
        return
    if is_remote(key.path):
        if not reading.project.storage or remote_files(reading, source, key):
            return
        found = [file.location for file in reading.listed.remote.get(key.path, ())]
    else:
        if any(_is_data(path) for path, _, _ in _below(reading, key.path) or ()):
            return
        files = reading.listed.find_files(key.path) or ()
        found = [path for path, _, _ in files if not is_hidden(name_of(path))]
    if found:
        raise TerminalStepError(
            f"{min(found)}: Spark does not read files in folders below {key.path}; add "
            "options: {recursiveFileLookup: true} to the source"
        )


def remote_files(reading: Reading, source: FilesSource, key: Key) -> list[FoundFile]:
    """Return the files of a source in an object store; none if only Spark can list them.

    They are listed once for all checks of a window. Files below a folder are not read if no folder
    above them has `=` in its name. Raises TerminalStepError for a file next to folders with columns
    in their names, which Spark would not read, and TransientStepError for a store without answer.
    """
    if _chooses_files(key) or "{" in key.path:
        return []
    if key.path not in reading.listed.remote:
        try:
            reading.listed.remote[key.path] = arrivals(reading.project, source, reading.run)
        except Exception as error:  # noqa: BLE001 - Spark may have other credentials
            raise_transient(key.path, error)
            return []
    found = reading.listed.remote[key.path]
    if "*" in key.path:
        return found
    files = [
        file
        for file in found
        if _is_read(file.location, key.path) and _is_data(name_of(file.location))
    ]
    values_in_folders((file.location for file in files), key.path)
    return files


def raise_transient(location: str, error: Exception) -> None:
    """Raise TransientStepError if a retry may succeed: checks must not depend on such an error."""
    if is_transient(error):
        raise TransientStepError(f"{location}: could not be read ({error})") from error


def list_remote_versions(reading: Reading, source: FilesSource, key: Key) -> FileVersions | None:
    """Return the versions of a source's files in an object store; None if they are not known.

    They are known if the project has `storage` settings, and the path has no pattern: Spark also
    reads the files of folders that a pattern matches.
    """
    if not reading.project.storage or PATTERN & set(key.path):
        return None
    found = remote_files(reading, source, key)
    if not _are_versions(found):
        return None
    return frozenset(
        FileVersion(
            normalize_scheme(file.location),
            file.size,
            _hash_tag(file),
            round(file.created.timestamp() * 1e9),
        )
        for file in found
    )


def _are_versions(files: Collection[FoundFile]) -> bool:
    """Return True if there are files, not too many, with times that distinguish versions."""
    return 0 < len(files) <= MOST_FILES and all(file.created.timestamp() for file in files)


def _below(reading: Reading, path: str) -> Fingerprint | None:
    """Return the files that lie where Spark reads them, also those with hidden names."""
    files = reading.listed.find_files(path)
    return files and reading.listed.remember(
        ("below", path), lambda: frozenset(each for each in files if _is_read(each[0], path))
    )


def _matched(reading: Reading, pattern: str) -> Fingerprint | None:
    """Return the files that a pattern matches; None if it also matches folders or hidden files."""
    files = reading.listed.find_files(pattern)
    if files and all(not names_below(path, pattern) and _is_data(path) for path, _, _ in files):
        return files
    return None


def _is_data(path: str) -> bool:
    """Return True if Spark reads a file of this name."""
    return not is_hidden(name_of(path)) and not path.endswith("._COPYING_")


def _is_read(location: str, path: str) -> bool:
    """Return True if Spark reads a file below a path: directly in it, or if a folder has a column.

    Plain folders may lie above and below the one with the column, as in `in/2026/day=1/part`.
    """
    names = names_below(location.rpartition("/")[0], path)
    return not names or any("=" in name for name in names)


def _chooses_files(key: Key) -> bool:
    """Return True if Spark's options select some of the files."""
    return any(name.lower() in _CHOOSE_FILES for name, _ in key.options)
