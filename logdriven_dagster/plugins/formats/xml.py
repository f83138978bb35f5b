"""Reading XML files with expat: one element at a time, each declared once or as an array."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from xml.parsers import expat

from logdriven_dagster.engine.queries.nested_values import sql_type
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.batches import Record, shorten
from logdriven_dagster.plugins.formats.models import XmlSource
from logdriven_dagster.plugins.formats.texts import TextValuesReader

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_CHUNK = 1 << 20
_TEXT = "_VALUE"
"""The field with the text of an element that has attributes, as in Spark."""
_NIL = "xsi:nil"
_SHOWN_TAGS = 5


class XmlReader(TextValuesReader):
    """Reader of the elements of one name."""

    def get_text_reader(
        self, source: XmlSource, columns: "StructType"
    ) -> Callable[[BinaryIO, str], Iterator[Record]]:
        row = _build_node(columns, "columns")
        ignores_unknown = source.unknown_fields == "ignore"
        return partial(_read_rows, _Layout(row, source.row_tag, ignores_unknown))


class _Node(NamedTuple):
    """A declared element or attribute."""

    fields: "Mapping[str, _Node] | None"
    """The attributes, elements and text within it; None for a text."""
    is_string: bool
    is_list: bool = False


class _Layout(NamedTuple):
    """Place of the values in a file; workers need no model for it."""

    row: _Node
    row_tag: str
    ignores_unknown: bool


def _build_node(kind: "DataType", place: str) -> _Node:
    from pyspark.sql import types as ty

    match kind:
        case ty.StructType():
            fields = {}
            for field in kind.fields:
                node = fields[field.name] = _build_node(field.dataType, field.name)
                if field.name.startswith("_") and (node.fields is not None or node.is_list):
                    raise TerminalStepError(
                        f"columns: {field.name} is an attribute or the text of an element, which "
                        f"cannot be {sql_type(field.dataType)}; write STRING"
                    )
            return _Node(fields, is_string=False)
        case ty.ArrayType() if not isinstance(kind.elementType, ty.ArrayType):
            return _build_node(kind.elementType, place)._replace(is_list=True)
        case ty.ArrayType() | ty.MapType():
            raise TerminalStepError(
                f"columns: an element cannot be {sql_type(kind)}, the type of {place}; write "
                "STRUCT, or ARRAY<STRUCT<…>>"
            )
        case _:
            return _Node(None, isinstance(kind, ty.StringType))


class _Open:
    """An element whose end has not been read."""

    def __init__(self, node: _Node, path: str, *, is_nil: bool = False) -> None:
        self.node, self.path, self.is_nil = node, path, is_nil
        self.values = dict[str, Any]()
        self.texts = list[str]()
        self.has_elements = False


def _read_rows(layout: _Layout, stream: BinaryIO, file: str) -> Iterator[Record]:
    rows = _Rows(layout, file)
    try:
        while chunk := stream.read(_CHUNK):
            rows.parser.Parse(chunk)
            yield from rows.take()
        rows.parser.Parse(b"", True)  # noqa: FBT003 - expat takes it by position
    except expat.ExpatError as error:
        raise TerminalStepError(
            f"{file}, line {error.lineno}, column {error.offset + 1}: the file is not complete, "
            f"well-formed XML ({expat.ErrorString(error.code)}); write it again"
        ) from None
    if rows.seen is not None:
        raise TerminalStepError(
            f"{file} has no element {layout.row_tag}, only {', '.join(rows.seen)}; correct row_tag"
        )


class _Rows:
    """Handlers of expat that build a record of each row element."""

    def __init__(self, layout: _Layout, file: str) -> None:
        self._layout, self._file = layout, file
        self._found = list[Record]()
        self._open = list[_Open]()
        self._skipped = 0
        """The number of open elements that are not read."""
        self._place = ""
        self._problems = dict[str, str]()
        self.seen: dict[str, None] | None = {}
        """The first names of other elements, until there is a row."""
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def take(self) -> list[Record]:
        """Return the records since the last call."""
        found, self._found = self._found, []
        return found

    def _refuse_doctype(self, *_: Any) -> None:
        raise TerminalStepError(
            f"{self._file}, line {self.parser.CurrentLineNumber}: the file has a DOCTYPE, which "
            "can change its values by entities and defaults; remove it from the file"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._skipped:
            self._skipped += 1
        elif self._open:
            self._start_field(self._open[-1], name, attributes)
        elif name == self._layout.row_tag:
            self.seen = None
            self._place = f"line {self.parser.CurrentLineNumber}, element {name}"
            self._problems = {}
            self._push(_Open(self._layout.row, ""), attributes)
        elif self.seen is not None and len(self.seen) < _SHOWN_TAGS:
            self.seen[name] = None

    def _start_field(self, outer: _Open, name: str, attributes: dict[str, str]) -> None:
        outer.has_elements = True
        path = f"{outer.path}.{name}".lstrip(".")
        node = (outer.node.fields or {}).get(name) if name != _TEXT else None
        if outer.node.fields is None:
            self._refuse(outer.path, f"has the element {name} within its text")
        elif node is None:
            self._refuse_unknown(path)
        elif name in outer.values and not node.is_list:
            self._refuse(path, "occurs twice, but is not an ARRAY")
        else:
            self._push(_Open(node, path), attributes)
            return
        self._skipped = 1

    def _push(self, opened: _Open, attributes: dict[str, str]) -> None:
        self._open.append(opened)
        for name, text in attributes.items():
            if name == _NIL:
                opened.is_nil = text.strip() in ("true", "1")
            if name == "xmlns" or name.startswith(("xmlns:", "xsi:")):
                continue
            field = f"_{name}"
            path = f"{opened.path}.{field}".lstrip(".")
            node = (opened.node.fields or {}).get(field) if field != _TEXT else None
            if node is None:
                self._refuse_unknown(path)
            else:
                opened.values[field] = _convert_text(node, text)

    def _add_text(self, text: str) -> None:
        if self._open and not self._skipped:
            self._open[-1].texts.append(text)

    def _end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
            return
        if not self._open:
            return
        ended = self._open.pop()
        value = self._build_value(ended)
        if not self._open:
            self._found.append(Record(ended.values, self._place, self._problems))
        elif ended.node.is_list:
            self._open[-1].values.setdefault(name, []).append(value)
        else:
            self._open[-1].values[name] = value

    def _build_value(self, ended: _Open) -> Any:
        text, fields = "".join(ended.texts), ended.node.fields
        if ended.is_nil and (text.strip() or ended.has_elements):
            self._refuse(ended.path, "is nil, but has content")
        if fields is None:
            return None if ended.is_nil else _convert_text(ended.node, text)
        if text.strip() and (_TEXT not in fields or ended.has_elements):
            self._refuse(
                ended.path or self._layout.row_tag, f"has the text {shorten(text.strip())}"
            )
        elif _TEXT in fields and not ended.has_elements and not ended.is_nil:
            ended.values[_TEXT] = _convert_text(fields[_TEXT], text)
        return None if ended.is_nil and not ended.values else ended.values

    def _refuse_unknown(self, path: str) -> None:
        if not self._layout.ignores_unknown:
            self._refuse(path, "is not in columns")

    def _refuse(self, path: str, problem: str) -> None:
        line = self.parser.CurrentLineNumber
        self._problems.setdefault(path, f"{problem} (line {line})")


def _convert_text(node: _Node, text: str) -> str | None:
    """Return a text as it is for a STRING, otherwise without spaces around it; None if empty."""
    return text if node.is_string else text.strip(" \t\r\n") or None
