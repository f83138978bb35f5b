"""Files named by a definition: they must lie below the project folder."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.errors import ConfigError

_REFERENCES = ("sql_file", "python")
"""Fields whose value may be the path of a file, relative to the file that contains the field."""


def find_named_files(values: Any) -> Iterator[str]:
    """Yield the file paths that `values` contain, relative to the file of these values."""
    return (path for _, path in _find_named_files(values, ()))


def explain_unsound_path(path: str) -> str | None:
    """Return the reason why `path` is not a portable relative path, or None if it is one."""
    windows = PureWindowsPath(path)
    if not path or "\0" in path:
        return "is not a file"
    if PurePosixPath(path).is_absolute() or windows.drive or windows.root or "\\" in path:
        return "must be a relative path with / between its parts"
    return None


MOVE = "put the file into the project folder, and write its path relative to this file"
"""The fix for a file outside the project folder."""


def explain_misplacement(path: str, folder: Path, root: Path) -> str | None:
    """Return the reason why `path` leads out of the project, or None if it stays inside.

    `folder` is the folder of the file that names it. Symbolic links are resolved.
    """
    if problem := explain_unsound_path(path):
        return problem
    inside = (folder / path).resolve().is_relative_to(root.resolve())
    return None if inside else "is outside of the project folder"


def find_misplaced_files(documents: Iterable[Document], root: Path) -> Iterator[ConfigError]:
    """Yield an error for each file outside the project folder that a definition names.

    Symbolic links are resolved. Definitions outside `root` are skipped.
    """
    for document in documents:
        if not document.path.is_relative_to(root):
            continue  # from the registry; `misplaced_content` has already checked it
        for location, path in _find_named_files(document.values, ()):
            if problem := explain_misplacement(path, document.path.parent, root):
                yield document.error(location, f"{path} {problem}", MOVE)


def explain_misplaced_content(content: Mapping[str, Any]) -> str | None:
    """Return the reason why the files of a registry or export entry are unusable, or None.

    The keys of `files` become paths when the entry is written to disk, so each of them must be a
    safe relative path that the values refer to.
    """
    named = list(find_named_files(content["values"]))
    for path in (*(content.get("files") or {}), *named):
        if problem := explain_unsound_path(path):
            return f"its content contains the file {path!r}, which {problem}"
    for path in content.get("files") or {}:
        if path not in named:
            return f"its content does not contain the file {path!r}"
    return None


def _find_named_files(values: Any, location: Location) -> Iterator[tuple[Location, str]]:
    """Yield location and path of each file in `values`; `package.module:function` is not a file."""
    if isinstance(values, dict):
        for name, value in values.items():
            place = (*location, name)
            if name not in _REFERENCES or not isinstance(value, str):
                yield from _find_named_files(value, place)
            elif name == "sql_file":
                yield place, value
            elif (path := value.rpartition(":")[0]).endswith(".py"):
                yield place, path
    elif isinstance(values, list):
        for n, value in enumerate(values):
            yield from _find_named_files(value, (*location, n))
