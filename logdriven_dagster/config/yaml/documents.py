"""YAML files as plain values, with the line of every field."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from yaml.reader import ReaderError

from logdriven_dagster.config.yaml.bounds import ExcessError, read_yaml
from logdriven_dagster.config.yaml.loader import Loader, describe_yaml_error
from logdriven_dagster.errors import ConfigError

Location: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML file; `lines` maps the path of each field to its line, from 1."""

    path: Path
    values: dict[str, Any]
    lines: Mapping[Location, int]
    item: str | None = None
    """Item of the template's `for_each` that produced this document, or None."""

    @property
    def place(self) -> str:
        """The file, with the item of a template."""
        return f"{self.path}, {self.item}" if self.item else str(self.path)

    def error(self, location: Location, problem: str, hint: str | None = None) -> ConfigError:
        """Return an error at a field, or at its nearest ancestor in the file; `hint` is the fix."""
        known = tuple(part for part in location)
        while known and known not in self.lines:
            known = known[:-1]
        line = self.lines.get(known, 1)
        return ConfigError(
            self.path, line, _format_location(location), problem, hint, item=self.item
        )


def report_once(errors: Iterable[ConfigError]) -> Iterator[ConfigError]:
    """Yield errors, with those that all items of a template share reported once."""
    groups: dict[tuple[Any, ...], list[ConfigError]] = {}
    for error in errors:
        key = (error.path, error.line, error.field, error.bare_problem, error.hint)
        groups.setdefault(key, []).append(error)
    for key, group in groups.items():
        first, *others = group
        if first.item is None or not others:
            yield from group
            continue
        yield ConfigError(*key, item=f"{first.item}, and {len(others)} more")


def read_document(path: Path) -> Document:
    """Parse one file. Raises ConfigError for invalid YAML, duplicate fields and empty files."""
    node, values = _parse(path)
    if node is None or values is None:
        raise ConfigError(
            path, 1, "", "the file is empty", f"begin it with `{_get_first_field(path)}`"
        )
    if not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else "text"
        problem = f"the file must contain fields, not {kind}"
        raise ConfigError(path, 1, "", problem, f"begin it with `{_get_first_field(path)}`")
    lines = dict(_list_lines(node, (), path))
    return Document(path, values, lines)


def _get_first_field(path: Path) -> str:
    """Return an example first line for a file of this kind."""
    if path.name == "logdriven.yaml":
        return "project: shop"
    return "job: nightly" if "jobs" in path.parts else "table: ods.orders"


def read_list(path: Path) -> list[Any]:
    """Parse a file that contains a list. Raises ConfigError for anything else."""
    node, values = _parse(path)
    if node is None or not isinstance(values, list):
        raise ConfigError(path, 1, "", "expected a list of items")
    dict(_list_lines(node, (), path))  # raises an error for duplicate fields
    return values


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without byte order mark. Raises ConfigError if unreadable."""
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise ConfigError(path, None, "", "must be a file, not a folder") from None
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror}"
        raise ConfigError(path, None, "", problem) from None
    hint = "save the file as UTF-8"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(path, None, "", "the file is UTF-16", hint)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"the byte 0x{content[error.start]:02X} is not UTF-8"
        raise ConfigError(path, line, "", problem, hint) from None


def explain_absence(path: Path) -> str | None:
    """Return the reason why there is no file at a path, or None if there is one."""
    if path.is_dir():
        return f"{path} must be a file, not a folder"
    return None if path.is_file() else f"no such file: {path}"


def _parse(path: Path) -> tuple[yaml.Node | None, Any]:
    text = read_text(path)
    try:
        return read_yaml(text, Loader)
    except ExcessError as error:
        mark = error.problem_mark
        line, problem = mark.line + 1 if mark else None, str(error.problem)
        raise ConfigError(path, line, "", problem, "write the values out") from None
    except yaml.MarkedYAMLError as error:
        line, problem, hint = describe_yaml_error(error, text)
        raise ConfigError(path, line, "", problem, hint) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character U+{error.character:04X} is not allowed in YAML"
        raise ConfigError(path, line, "", problem, "remove it") from None
    except ValueError as error:
        raise ConfigError(path, None, "", f"not valid YAML: {error}") from None


def _list_lines(node: yaml.Node, location: Location, path: Path) -> Iterator[tuple[Location, int]]:
    if isinstance(node, yaml.MappingNode):
        seen: dict[Any, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                problem = f"given twice, first in line {seen[key.value]}"
                field = _format_location((*location, key.value))
                raise ConfigError(path, line, field, problem, "remove one of them")
            seen[key.value] = line
            yield (*location, key.value), line
            yield from _list_lines(value, (*location, key.value), path)
    elif isinstance(node, yaml.SequenceNode):
        for n, item in enumerate(node.value):
            yield (*location, n), item.start_mark.line + 1
            yield from _list_lines(item, (*location, n), path)


def _format_location(location: Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
