"""Files that a definition names: they lie next to it, below the project folder."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.errors import ConfigError

_REFERENCES = ("sql_file", "python")
"""Fields that may name a file beside the one that holds them."""


def named_files(values: Any) -> Iterator[str]:
    """What may be the paths of files beside the one that holds these values."""
    return (path for _, path in _named(values, ()))


def unsound_path(path: str) -> str | None:
    """Why a path leads elsewhere on some machine, whatever stands there; None: it is relative."""
    windows = PureWindowsPath(path)
    if not path or "\0" in path:
        return "names no file"
    if PurePosixPath(path).is_absolute() or windows.drive or windows.root or "\\" in path:
        return "is not relative, with / between its parts"
    return None


MOVE = "put the file below the project folder, and name it from here"
"""What to do about a file that lies elsewhere."""


def misplacement(path: str, folder: Path, root: Path) -> str | None:
    """Why a file, named in a file of `folder`, is not the project's; None: it is, also by links."""
    if problem := unsound_path(path):
        return problem
    inside = (folder / path).resolve().is_relative_to(root.resolve())
    return None if inside else "leads out of the project folder"


def misplaced_files(documents: Iterable[Document], root: Path) -> Iterator[ConfigError]:
    """The files that definitions below the project folder name outside of it, also by links."""
    for document in documents:
        if not document.path.is_relative_to(root):
            continue  # of the registry, and looked at by `misplaced_content` before
        for location, path in _named(document.values, ()):
            if problem := misplacement(path, document.path.parent, root):
                yield document.error(location, f"{path} {problem}", MOVE)


def misplaced_content(content: Mapping[str, Any]) -> str | None:
    """Why the files of a content of the registry, or of an export, cannot be used; None: they can.

    Its texts would be written by these names, and its values would read what they name.
    """
    named = list(named_files(content["values"]))
    for path in (*(content.get("files") or {}), *named):
        if problem := unsound_path(path):
            return f"its content names the file {path!r}, which {problem}"
    for path in content.get("files") or {}:
        if path not in named:
            return f"its content names no file {path!r}"
    return None


def _named(values: Any, location: Location) -> Iterator[tuple[Location, str]]:
    """The files that values name, each with its place; `package.module:function` names none."""
    if isinstance(values, dict):
        for name, value in values.items():
            place = (*location, name)
            if name not in _REFERENCES or not isinstance(value, str):
                yield from _named(value, place)
            elif name == "sql_file":
                yield place, value
            elif (path := value.rpartition(":")[0]).endswith(".py"):
                yield place, path
    elif isinstance(values, list):
        for n, value in enumerate(values):
            yield from _named(value, (*location, n))
