"""Template files for many similar tables: `for_each`. Source: BDRE, PROCESS_TEMPLATE.

A file with `for_each` expands to one table or job per item. Items are mappings or plain values: a
list in the file itself, `{csv: items.csv}` with names in the first line, or `{yaml: items.yaml}`,
relative to the file. In any other text of the file, `${each.name}` is replaced by the item's value
of that name, and `${each}` by a plain item. A text that consists of a single reference becomes the
value with its type; if that is null, as for an empty CSV cell, the field is left out. The item's
`override` is merged over the rest: mappings by key, lists of named items (such as steps and checks)
by name; other lists are replaced.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

from logdriven_dagster.config.models.code_files import MOVE, explain_misplacement
from logdriven_dagster.config.yaml.documents import (
    Document,
    Location,
    explain_absence,
    read_list,
    read_text,
)
from logdriven_dagster.config.yaml.loader import show
from logdriven_dagster.errors import ConfigError, InvalidProjectError

_EACH = re.compile(r"\$\{each(?:\.([^}]*))?\}")
_FORMS = "a list, {csv: file} or {yaml: file}"
_NAMES = ("step", "check", "table", "name")
"""Fields that name the items of a list."""

_Moves: TypeAlias = list[tuple[Location, Location]]


def expand(document: Document, root: Path) -> Iterator[Document]:
    """Yield the documents that a file expands to: itself, unless it is a template.

    Raises InvalidProjectError after the valid documents, with one ConfigError per invalid item.
    """
    if "for_each" not in document.values:
        yield document
        return
    errors = []
    for item in _read_items(document, root):
        try:
            yield item.document()
        except ConfigError as error:
            errors.append(error)
    if errors:
        raise InvalidProjectError(errors)


def find_items_file(document: Document) -> Path | None:
    """Return the YAML file with the items of a template, which is not a document itself."""
    given = document.values.get("for_each")
    name = given.get("yaml") if isinstance(given, dict) else None
    return (document.path.parent / name).resolve() if isinstance(name, str) else None


@dataclass(frozen=True)
class _Item:
    template: Document
    number: int
    value: Any

    @cached_property
    def label(self) -> str:
        """The item's number and name, for messages."""
        name = self.value
        if isinstance(name, dict):
            own = [name[key] for key in ("name", "table", "job") if key in name]
            name = next(iter([*own, *name.values()]), "empty")
        return f"item {self.number + 1}, {name}"

    def document(self) -> Document:
        values = {k: v for k, v in self.template.values.items() if k != "for_each"}
        filled = self._fill(values, ())
        override = self.value.get("override") if isinstance(self.value, dict) else None
        place: Location = ("for_each", self.number, "override")
        if override is None:
            return Document(self.template.path, filled, self.template.lines, self.label)
        if not isinstance(override, dict):
            raise self._build_error(place, "must be fields, such as {retries: 5}")
        moves: _Moves = []
        merged = _merge(filled, self._fill(override, place), (), place, moves)
        lines = {**self.template.lines, **dict(self._move_lines(moves))}
        return Document(self.template.path, merged, lines, self.label)

    def _fill(self, value: Any, place: Location) -> Any:
        """Return the value with each reference replaced by the item's value."""
        if isinstance(value, str):
            return self._fill_text(value, place) if "${each" in value else value
        if isinstance(value, list):
            return [self._fill(part, (*place, n)) for n, part in enumerate(value)]
        if not isinstance(value, dict):
            return value
        filled = {}
        for key, part in value.items():
            name = self._fill(key, place)
            replaced = self._fill(part, (*place, key))
            if replaced is not None or part is None:
                filled[name] = replaced
        return filled

    def _fill_text(self, text: str, place: Location) -> Any:
        if whole := _EACH.fullmatch(text):
            return self._get_value(whole, place)

        def part(match: re.Match[str]) -> str:
            value = self._get_value(match, place)
            if value is None or isinstance(value, (dict, list)):
                raise self._build_error(place, f"{match[0]} must be text, not {show(value)}")
            return str(value).lower() if isinstance(value, bool) else str(value)

        return _EACH.sub(part, text)

    def _get_value(self, reference: re.Match[str], place: Location) -> Any:
        """Return the item's value of a name, which may be a path: `${each.source.table}`."""
        name = reference[1]
        if not isinstance(self.value, dict):
            if name is None:
                return self.value
            raise self._build_error(
                place, f"{reference[0]}: the items have no names", "write ${each}"
            )
        value: Any = self.value
        for part in (name or "").split("."):
            if not isinstance(value, dict) or part not in value or part == "override":
                own = [f"${{each.{key}}}" for key in self.value if key != "override"]
                problem = f"unknown {reference[0]}"
                raise self._build_error(
                    place, problem, f"the item has {', '.join(own) or 'nothing'}"
                )
            value = value[part]
        return value

    def _move_lines(self, moves: _Moves) -> Iterator[tuple[Location, int]]:
        """Yield the lines of merged parts: those of the item."""
        for location, line in self._own_lines:
            for place, origin in moves:
                if location[: len(origin)] == origin:
                    yield (*place, *location[len(origin) :]), line

    @cached_property
    def _own_lines(self) -> list[tuple[Location, int]]:
        own = ("for_each", self.number)
        return [item for item in self.template.lines.items() if item[0][:2] == own]

    def _build_error(self, place: Location, problem: str, hint: str | None = None) -> ConfigError:
        error = self.template.error(place, problem, hint)
        return ConfigError(error.path, error.line, error.field, problem, hint, item=self.label)


def _merge(base: Any, over: Any, place: Location, origin: Location, moves: _Moves) -> Any:
    """Merge `over` deeply over `base`; records the destination of each part in `moves`."""
    if isinstance(base, dict) and isinstance(over, dict):
        merged = dict(base)
        for key, value in over.items():
            at = (*place, key)
            merged[key] = _merge(base.get(key), value, at, (*origin, key), moves)
        return merged
    named = _map_numbers(base)
    if named and isinstance(over, list) and _map_numbers(over):
        items = list(base)
        for n, value in enumerate(over):
            number = named.get(_get_name(value), len(items))
            before = items[number] if number < len(items) else None
            items[number : number + 1] = [
                _merge(before, value, (*place, number), (*origin, n), moves)
            ]
        return items
    moves.append((place, origin))
    return over


def _map_numbers(items: Any) -> dict[Any, int]:
    """Return the index of each name in a list of named items; empty for any other value."""
    names = [_get_name(item) for item in items] if isinstance(items, list) else []
    return {} if None in names else {name: n for n, name in enumerate(names)}


def _get_name(item: Any) -> Any:
    own = item if isinstance(item, dict) else {}
    return next((own[field] for field in _NAMES if field in own), None)


def _read_items(template: Document, root: Path) -> list[_Item]:
    given = template.values["for_each"]
    values = given
    if isinstance(given, dict):
        values = _read_list(template, given, root)
    if not isinstance(values, list):
        raise template.error(("for_each",), f"must be {_FORMS}")
    if not values:
        raise template.error(
            ("for_each",), "must not be empty", "write a list, such as [{name: a}]"
        )
    return [_Item(template, n, value) for n, value in enumerate(values)]


def _read_list(template: Document, given: Mapping[str, Any], root: Path) -> list[Any]:
    if len(given) != 1 or not given.keys() <= {"csv", "yaml"}:
        raise template.error(("for_each",), f"must be {_FORMS}")
    ((form, name),) = given.items()
    path = template.path.parent / str(name)
    if problem := explain_misplacement(str(name), template.path.parent, root):
        raise template.error(("for_each", form), f"{name} {problem}", MOVE)
    if problem := explain_absence(path):
        raise template.error(("for_each", form), problem)
    return read_list(path) if form == "yaml" else list(_read_rows(path))


def _read_rows(path: Path) -> Iterator[dict[str, str | None]]:
    """Yield the rows of a CSV file with a header line; an empty cell is null."""
    try:
        file = StringIO(read_text(path), newline="")
        reader = csv.DictReader(file, skipinitialspace=True, strict=True)
        for row in reader:
            if None in row or None in row.values():
                number = len(reader.fieldnames or ())
                problem = f"this line must have {number} cells, like the first line"
                raise ConfigError(path, reader.line_num, "", problem)
            yield {name: cell.strip() or None for name, cell in row.items()}
    except csv.Error as error:
        raise ConfigError(path, None, "", f"not valid CSV: {error}") from None
