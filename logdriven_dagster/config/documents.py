"""YAML files as plain values, with the line of every field."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from logdriven_dagster.errors import ConfigError

Location: TypeAlias = tuple[str | int, ...]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Dates stay text, so that a wrong one is the mistake of a field, with its line.

    So do the names of fields: to YAML 1.1 an unquoted `on` is true.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - YAML's own signature
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:bool":
                key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


_Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML file; `lines` maps the path of each field to its line, from 1."""

    path: Path
    values: dict[str, Any]
    lines: Mapping[Location, int]
    item: str | None = None
    """Of a document that a template stands for: which item of its `for_each` made it."""

    @property
    def place(self) -> str:
        """The file, and the item of a template."""
        return f"{self.path}, {self.item}" if self.item else str(self.path)

    def error(self, location: Location, problem: str, hint: str | None = None) -> ConfigError:
        """An error at a field, or at its nearest ancestor that stands in the file."""
        known = tuple(part for part in location)
        while known and known not in self.lines:
            known = known[:-1]
        line = self.lines.get(known, 1)
        return ConfigError(self.path, line, _dotted(location), problem, hint, item=self.item)


def told_once(errors: Iterable[ConfigError]) -> Iterator[ConfigError]:
    """The errors, without repeating for each item of a template what is wrong with all of them."""
    groups: dict[tuple[Any, ...], list[ConfigError]] = {}
    for error in errors:
        key = (error.path, error.line, error.field, error.told, error.hint)
        groups.setdefault(key, []).append(error)
    for key, group in groups.items():
        first, *others = group
        if first.item is None or not others:
            yield from group
            continue
        yield ConfigError(*key, item=f"{first.item}, and {len(others)} more")


def read_document(path: Path) -> Document:
    """Parse one file; ConfigError for broken YAML, a field given twice, no fields."""
    node, values = _parsed(path)
    if node is None or not isinstance(values, dict):
        raise ConfigError(path, 1, "", "expected fields, such as `table: ods.flights`")
    lines = dict(_lines(node, (), path))
    return Document(path, values, lines)


def read_list(path: Path) -> list[Any]:
    """Parse a file that holds a list; ConfigError for anything else."""
    node, values = _parsed(path)
    if node is None or not isinstance(values, list):
        raise ConfigError(path, 1, "", "expected a list of items")
    dict(_lines(node, (), path))  # refuses what is given twice
    return values


def text_of(path: Path) -> str:
    """The text of a file, without a byte order mark; ConfigError if it cannot be read as UTF-8."""
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise ConfigError(path, None, "", "this is a folder; a file is expected") from None
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


def absence(path: Path) -> str | None:
    """Why there is no file at a path; None if there is one."""
    if path.is_dir():
        return f"{path} is a folder; a file is expected"
    return None if path.is_file() else f"no such file: {path}"


def _parsed(path: Path) -> tuple[yaml.Node | None, Any]:
    try:
        loader = _Loader(text_of(path))
        node = loader.get_single_node()
        return node, loader.construct_document(node) if node else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        problem = f"not YAML: {error.problem}"
        raise ConfigError(path, mark.line + 1 if mark else None, "", problem) from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(path, None, "", f"not YAML: {error}") from None


def _lines(node: yaml.Node, location: Location, path: Path) -> Iterator[tuple[Location, int]]:
    if isinstance(node, yaml.MappingNode):
        seen: dict[Any, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                problem = f"given twice, first in line {seen[key.value]}"
                raise ConfigError(path, line, _dotted((*location, key.value)), problem)
            seen[key.value] = line
            yield (*location, key.value), line
            yield from _lines(value, (*location, key.value), path)
    elif isinstance(node, yaml.SequenceNode):
        for n, item in enumerate(node.value):
            yield (*location, n), item.start_mark.line + 1
            yield from _lines(item, (*location, n), path)


def _dotted(location: Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def validation_errors(
    document: Document, model: type[BaseModel], error: ValidationError
) -> list[ConfigError]:
    """Pydantic's complaints as our own: the place in the file, plain words, a hint."""
    found = []
    for details in error.errors(include_url=False):
        if details["type"] == "too_short" and details["input"]:
            continue  # there are items, each with an error of its own
        location, allowed = _place(model, details["loc"])
        found.append(document.error(location, *_wording(details, location, allowed)))
    return found


def _wording(
    details: ErrorDetails, location: Location, allowed: list[str]
) -> tuple[str, str | None]:
    given = details.get("input")
    match details["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(str(location[-1]), allowed, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"allowed: {', '.join(allowed)}"
            return "unknown field", hint
        case "missing":
            return "missing", None
        case "union_tag_not_found":
            return "no type given", f"one of {_tags(details)}"
        case "union_tag_invalid":
            return f"unknown type {given.get('type') if isinstance(given, dict) else given!r}", (
                f"one of {_tags(details)}"
            )
        case "value_error":
            return details["msg"].removeprefix("Value error, "), None
        case "string_pattern_mismatch" if location[-1:] == ("table",) or location[:1] == (
            "depends_on",
        ):
            hint = "use letters, digits and underscores between dots, such as ods.flights"
            return f"{given!r} is not a table name", hint
        case "literal_error":
            message = details["msg"].removeprefix("Input should be ")
            return f"{given!r} is not allowed", f"one of {message}"
        case _:
            return f"{details['msg'][:1].lower()}{details['msg'][1:]}, not {given!r}", None


def _tags(details: ErrorDetails) -> str:
    return str(details.get("ctx", {}).get("expected_tags", ""))


def _place(model: type[BaseModel], loc: Location) -> tuple[Location, list[str]]:
    """Where in the file pydantic's location is, and the fields that the innermost model allows.

    Pydantic names the chosen members of unions too; the file does not.
    """
    location: list[str | int] = []
    models: list[type[BaseModel]] = [model]
    for part in loc:
        tagged = [m for m in models if part in _literal_types(m)]
        if tagged and not any(part in m.model_fields for m in models):
            models = tagged
            continue
        location.append(part)
        if isinstance(part, str):
            fields = [m.model_fields[part] for m in models if part in m.model_fields]
            models = [m for field in fields for m in _models_in(field.annotation)] or models
    return tuple(location), sorted({name for m in models for name in m.model_fields})


def _literal_types(model: type[BaseModel]) -> tuple[Any, ...]:
    field = model.model_fields.get("type")
    return get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if annotation is None or get_origin(annotation) is Literal:
        return []
    return [model for part in get_args(annotation) for model in _models_in(part)]
