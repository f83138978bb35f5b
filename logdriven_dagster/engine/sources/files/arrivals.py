"""Arrivals of files: listing a folder, detecting changed files, and deleting or moving them.

Any URL that fsspec supports can be listed: local folders, `hdfs://`, `sftp://` with the packages
that fsspec requires, and object stores with the `storage` settings of the project file. Spark reads
the same URLs.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.types.files import FilesSource
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.queries.rendering import render_path
from logdriven_dagster.engine.sources.known_sources import is_hidden
from logdriven_dagster.engine.storage.locations import file_system
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from logdriven_dagster.model.files import FoundFile
from logdriven_dagster.model.runs import WindowRun

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_TAGS = ("ETag", "etag", "md5Hash", "checksum")
_CHUNK = 1 << 20
_PATTERN = frozenset("*?[{")


def arrivals(project: Project, source: FilesSource, run: WindowRun) -> list[FoundFile]:
    """Return the files of a source, oldest first, without those whose names begin with `_` or `.`.

    A folder is searched recursively. Raises TerminalStepError if a folder or file that is named
    exactly does not exist; a glob may match nothing.
    """
    url = render_path(source.path, run, project)
    system, root = _system(url, project)
    found = _find(url, system, root)
    if found is None:
        raise TerminalStepError(
            f"{url} does not exist; a folder must exist, but a glob may match no files"
        )
    files = [
        _file(url, system, path, info, source.detect_changes_by) for path, info in found.items()
    ]
    return sorted(files, key=lambda file: (file.created, file.path))


def has_files(project: Project, location: str) -> bool:
    """Return True if a path or pattern has a file whose name does not begin with `_` or `.`."""
    system, root = _system(location, project)
    if _PATTERN & set(root) or not system.isdir(root):
        return bool(_find(location, system, root))
    return any(
        name and _is_visible(location, f"{folder}/{name}", root)
        for folder, _, names in system.walk(root)  # folder by folder, until there is one
        for name in names
    )


def _find(url: str, system: Any, root: str) -> dict[str, Any] | None:
    """Return the visible files of a path or pattern; None for a path that does not exist."""
    if _PATTERN & set(root):
        found = _glob(system, root)
    elif system.isdir(root):
        found = system.find(root, detail=True)
    elif system.exists(root):
        found = {root: system.info(root)}
    else:
        return None
    base = _get_base(root)
    return {
        path: info
        for path, info in found.items()
        if info["type"] == "file" and _is_visible(url, path, base)
    }


def _is_visible(url: str, path: str, base: str) -> bool:
    """Return True for a file that Spark reads, and False for an object that stands for a folder.

    Consoles create `day=1/` in all stores, and EMR creates `day=1_$folder$` in S3. Hadoop's
    connectors do not list them.
    """
    is_folder = path.endswith("/") or (url.startswith("s3") and path.endswith("_$folder$"))
    return not is_folder and not _is_hidden(path, base)


def find_visible(project: Project, pattern: str) -> list[str]:
    """Return the files and folders that a pattern matches, except names with `_` or `.` in front.

    Raises OSError if the file system cannot be listed.
    """
    system, root = _system(pattern, project)
    base = _get_base(root)
    return sorted(path for path in _glob(system, root) if not _is_hidden(path, base))


def _get_base(pattern: str) -> str:
    """Return the part of a path or pattern before its first placeholder."""
    return re.split(r"[*?\[{]", pattern, maxsplit=1)[0]


def _glob(system: Any, pattern: str) -> dict[str, Any]:
    """Return what a pattern matches. `{a,b}` is a pattern of Hadoop, which fsspec lacks."""
    return {
        path: info
        for text in _list_alternatives(pattern)
        for path, info in system.glob(text, detail=True).items()
    }


def _list_alternatives(pattern: str) -> list[str]:
    """Return the patterns without braces that have the same matches."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    start, end = pattern[: found.start()], pattern[found.end() :]
    return [
        text
        for choice in found[1].split(",")
        for text in _list_alternatives(f"{start}{choice}{end}")
    ]


def current(project: Project, source: FilesSource, file: FoundFile) -> FoundFile:
    """Return the current state of a registered file.

    Raises TerminalStepError if the file is gone, since its rows would be missing forever.
    """
    system, path = _system(file.location, project)
    try:
        return _file(file.location, system, path, system.info(path), source.detect_changes_by)
    except FileNotFoundError:
        fix = "put it back, or set batch_state = 1 in batch_queue for its batch"
        raise TerminalStepError(
            f"{file.location} was registered, but does not exist any more; {fix}"
        ) from None


def refuse_changed(project: Project, source: FilesSource, files: Sequence[FoundFile]) -> None:
    """Raise TransientStepError if a file was replaced during the read; its rows are uncertain."""
    changed = [f.location for f in files if current(project, source, f).hash != f.hash]
    if changed:
        raise TransientStepError(f"replaced while it was read: {', '.join(changed[:3])}")


def settle(project: Project, source: FilesSource, files: Sequence[FoundFile]) -> None:
    """Delete or move files whose rows are published, unless they have changed in the meantime.

    A file that is already gone is ignored.
    """
    if source.after_success == "keep":
        return
    for file in files:
        with suppress(TerminalStepError, FileNotFoundError):
            if current(project, source, file).hash == file.hash:
                _remove(project, source, file)


def _remove(project: Project, source: FilesSource, file: FoundFile) -> None:
    system, path = _system(file.location, project)
    if source.after_success == "delete":
        system.rm_file(path)
        return
    _, folder = _system(project.path(str(source.move_to)), project)
    system.makedirs(folder, exist_ok=True)
    system.mv(path, f"{folder.rstrip('/')}/{_free_name(system, folder, path)}")


def _free_name(system: Any, folder: str, path: str) -> str:
    """Return the file's name, with a number if the folder already has a file of that name."""
    name = Path(path).name
    stem, dot, suffix = name.partition(".")
    n = 1
    while system.exists(f"{folder.rstrip('/')}/{name}"):
        name, n = f"{stem}-{n}{dot}{suffix}", n + 1
    return name


def _system(url: str, project: Project) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it: the project's, or any of fsspec's."""
    from fsspec.core import strip_protocol, url_to_fs

    if is_remote(url):
        system = file_system(url, project.storage)
        return system, strip_protocol(url)
    system, path = url_to_fs(url)
    system.invalidate_cache()
    return system, path


def _is_hidden(path: str, base: str) -> bool:
    """Return True for names that Spark ignores; writers use them for their own files."""
    below = path.removeprefix(base)
    return any(map(is_hidden, [*below.split("/"), Path(path).name]))


def _file(url: str, system: Any, path: str, info: Mapping[str, Any], version: str) -> FoundFile:
    place = urlsplit(url)
    server = f"{place.scheme}://" if "://" in url else ""
    modified = _get_modification_time(info)
    tag = next((str(info[name]) for name in _TAGS if info.get(name)), "")
    token = _digest(system, path) if version == "hash" else f"{info['size']}-{modified}{tag}"
    location = path
    if is_remote(url):  # with the scheme and account of the source, as Spark names it
        location = f"{server}{place.netloc}/{path.partition('/')[2]}"
    elif server:
        location = system.unstrip_protocol(path)
    created = datetime.fromtimestamp(modified, timezone.utc)
    return FoundFile(server, location.removeprefix(server), info["size"], token[:128], created)


def _get_modification_time(info: Mapping[str, Any]) -> float:
    """Return the modification time in epoch seconds; 0 if the file system has no times."""
    for name in _TIMES:
        value = info.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, str):
            with suppress(ValueError):
                return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
        if isinstance(value, int | float):
            return float(value)
    return 0.0


def _digest(system: Any, path: str) -> str:
    digest = hashlib.sha256()
    with system.open(path, "rb") as stream:
        for chunk in _chunks(stream):
            digest.update(chunk)
    return digest.hexdigest()


def _chunks(stream: Any) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk
