"""YAML loader that keeps the text of values that YAML 1.1 would read as another type.

In YAML 1.1 an unquoted `off` is false, `012` is ten and `1:30` is ninety. Such a value stays text.
Boolean fields accept it; any other field rejects it.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from logdriven_dagster.config.secrets import show_value

_CLEAR_BOOL = re.compile(r"true|false", re.IGNORECASE)
_ODD_NUMBER = re.compile(r"[-+]?0[0-9_]+|.*:.*")


class Ambiguous(str):
    """A text that YAML 1.1 reads as a value of another type."""

    __slots__ = ()

    @property
    def meaning(self) -> str:
        """The value that YAML 1.1 reads, as text."""
        return show_value(yaml.safe_load(self))


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML loader that keeps dates, field names and ambiguous values as text.

    An invalid date is then reported as the mistake of a field, with its line.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - YAML's own signature
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:bool":
                key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)

    def construct_clear_bool(self, node: yaml.ScalarNode) -> Any:
        """Return a boolean written as true or false; other spellings stay text."""
        if not _CLEAR_BOOL.fullmatch(node.value):
            return Ambiguous(node.value)
        return super().construct_yaml_bool(node)

    def construct_clear_int(self, node: yaml.ScalarNode) -> Any:
        """Return an integer; octal and sexagesimal numbers stay text."""
        if _ODD_NUMBER.fullmatch(node.value):
            return Ambiguous(node.value)
        return super().construct_yaml_int(node)

    def construct_clear_float(self, node: yaml.ScalarNode) -> Any:
        """Return a float; sexagesimal numbers stay text."""
        if _ODD_NUMBER.fullmatch(node.value) and ":" in node.value:
            return Ambiguous(node.value)
        return super().construct_yaml_float(node)


Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)
Loader.add_constructor("tag:yaml.org,2002:bool", Loader.construct_clear_bool)
Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_clear_int)
Loader.add_constructor("tag:yaml.org,2002:float", Loader.construct_clear_float)


def find_ambiguous(value: Any, location: tuple[str | int, ...] = ()) -> Iterator[Any]:
    """Yield each ambiguous text in a value, with its location."""
    if isinstance(value, Ambiguous):
        yield location, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from find_ambiguous(part, (*location, key))
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from find_ambiguous(part, (*location, n))


_TAB = "a tab indents this line", "indent with spaces"
_QUOTES = "put the text in quotes"
_INDENTATION = "this line does not fit those before it"
_SAME_DEPTH = "indent fields of the same level by the same number of spaces, and close quotes"

_PROBLEMS: tuple[tuple[str, tuple[str, str | None]], ...] = (
    (r"tab character|'\\t'", _TAB),
    (
        r"mapping values are not allowed",
        ("a colon is not allowed here", f"check the indentation, or {_QUOTES}"),
    ),
    (r"expected '-' indicator|expected <block end>|expected key", (_INDENTATION, _SAME_DEPTH)),
    (r"cannot start any token|undefined alias|while scanning an alias|alphabetic or numeric",
     ("a text cannot begin with this character", _QUOTES)),
    (r"constructor for the tag|undefined tag", ("a text cannot begin with !", _QUOTES)),
    (r"expected ',' or '([\]}])'", ("a bracket is not closed, or a comma is missing", None)),
    (r"another document", ("`---` begins a second document", "write a separate file for each")),
    (
        r"could not find expected ':'",
        ("a colon and a space are missing after the field", "write `field: value`"),
    ),
    (r"unhashable key", ("a list or mapping cannot be the name of a field", None)),
    (r"unexpected end of stream", ("a quote is not closed", None)),
    (r"for merging", ("`<<` must name fields", None)),
)  # fmt: skip
"""Messages of PyYAML and libyaml, with plain words and a fix for each."""


def describe_yaml_error(
    error: yaml.MarkedYAMLError, text: str
) -> tuple[int | None, str, str | None]:
    """Return line, problem and fix of a syntax error in a text."""
    original, mark = str(error.problem), error.problem_mark
    unfinished = re.search(r"expected ':'|unexpected end of stream|expected ',' or", original)
    if unfinished and error.context_mark is not None:
        mark = error.context_mark  # its start; the parser notices the problem lines later
    line = mark.line + 1 if mark else None
    if mark and "cannot start any token" in original and text[mark.index :].startswith("\t"):
        return line, *_TAB
    for pattern, (problem, hint) in _PROBLEMS:
        if re.search(pattern, original):
            return line, problem, hint
    return line, f"not valid YAML: {original}", None
