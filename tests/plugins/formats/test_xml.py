"""Elements of XML files are read as declared, or refused with file, line and element."""

from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructType

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.batches import Record
from logdriven_dagster.plugins.formats.xml import _build_node, _Layout, _read_rows
from logdriven_dagster.testing.conformance import SourceConformance, SourceScene
from tests.builders import day
from tests.engine.laboratory import Lab

TARGET = {"type": "parquet"}
SOURCE = {"type": "xml", "path": "in", "row_tag": "r"}
MONEY = StructType().add("_unit", StringType()).add("_VALUE", LongType())
COLUMNS = (
    StructType()
    .add("_id", LongType())
    .add("s", StringType())
    .add("n", LongType())
    .add("m", MONEY)
    .add("l", ArrayType(StructType().add("x", StringType())))
    .add("p:q", StringType())
)
ROW = _build_node(COLUMNS, "columns")


def records(content: str | bytes, *, ignore: bool = False) -> list[Record]:
    stream = BytesIO(content.encode() if isinstance(content, str) else content)
    return list(_read_rows(_Layout(ROW, "r", ignores_unknown=ignore), stream, "f"))


READ: dict[str, tuple[str, dict[str, Any]]] = {
    "an attribute": ("<r id=' 7 '/>", {"_id": "7"}),
    "a text as it is": ("<r><s> a\n<![CDATA[<b>]]>&lt;<!-- c --> </s></r>", {"s": " a\n<b>< "}),
    "spaces around a number": ("<r><n>\n 7 </n></r>", {"n": "7"}),
    "an empty text": ("<r><s/></r>", {"s": ""}),
    "an empty number": ("<r><n/></r>", {"n": None}),
    "nil": ("<r><s xsi:nil='true'/></r>", {"s": None}),
    "text with an attribute": ("<r><m unit='€'>5</m></r>", {"m": {"_unit": "€", "_VALUE": "5"}}),
    "a list": ("<r><l><x>a</x></l><s>b</s><l/></r>", {"l": [{"x": "a"}, {}], "s": "b"}),
    "a prefix": ("<r xmlns:p='u'><p:q>a</p:q></r>", {"p:q": "a"}),
}


@pytest.mark.parametrize("case", READ)
def test_an_element_is_read_as_declared(case: str):
    content, values = READ[case]
    (record,) = records(f"<rows>text<other/>{content}</rows>")
    assert (record.values, record.problems) == (values, {})


REFUSED = {
    "an element that occurs twice": ("<n>1</n><n>2</n>", "n", "occurs twice, but is not an ARRAY"),
    "an unknown element": ("<y><z>1</z></y>", "y", "is not in columns"),
    "an unknown element within": ("<l><y/></l>", "l.y", "is not in columns"),
    "an unknown attribute": ("<n unit='x'>1</n>", "n._unit", "is not in columns"),
    "an element within a text": ("<s>a<b>c</b></s>", "s", "has the element b within its text"),
    "text between elements": ("<l>a<x>b</x></l>", "l", "has the text 'a'"),
    "text between columns": ("a", "r", "has the text 'a'"),
    "nil with a text": ("<s xsi:nil='1'>a</s>", "s", "is nil, but has content"),
    "a field for the text as an element": ("<m><_VALUE>1</_VALUE></m>", "m._VALUE", "is not in"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_element_that_is_not_declared_is_a_problem_with_its_line(case: str):
    content, column, problem = REFUSED[case]
    (record,) = records(f"<rows>\n<r>\n{content}</r></rows>")
    assert record.place == "line 2, element r"
    assert record.problems[column].startswith(problem)
    assert record.problems[column].endswith("(line 3)")


def test_unknown_elements_and_attributes_may_be_ignored():
    (record,) = records("<r v='1'><y><n>2</n>z</y><n unit='x'>1</n></r>", ignore=True)
    assert (record.values, record.problems) == ({"n": "1"}, {})
    (record,) = records("<r><m>1<y/>2</m></r>", ignore=True)
    assert record.problems == {"m": "has the text '12' (line 1)"}


FILES = {
    "no row": ("<rows><row/></rows>", "f has no element r, only rows, row; correct row_tag"),
    "cut off": ("<rows><r><n>1</n></r>", "f, line 1, column 22: the file is not complete"),
    "not XML": ("id,n\n", "not complete, well-formed XML"),
    "an entity": ('<!DOCTYPE r [<!ENTITY e "x">]><r><s>&e;</s></r>', "f, line 1: the file has a"),
    "an external entity": ('<!DOCTYPE r SYSTEM "x"><r><s>&e;</s></r>', "has a DOCTYPE"),
    "bytes outside the encoding": (b"<r><s>\xff</s></r>", "well-formed XML"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_read_exactly_is_refused(case: str):
    content, problem = FILES[case]
    with pytest.raises(TerminalStepError) as caught:
        records(content)
    assert problem in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "cp1252"])
def test_the_encoding_is_that_of_the_declaration(encoding: str):
    text = f'<?xml version="1.0" encoding="{encoding}"?><r><s>é</s></r>'
    assert records(text.encode(encoding))[0].values == {"s": "é"}


def test_rows_are_read_one_by_one():
    """A file is larger than the memory of a task."""

    class Endless(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            self.started = getattr(self, "started", b"<rows>")
            chunk, self.started = self.started, b"<r id='1'/>" * 100
            return chunk

    rows = _read_rows(_Layout(ROW, "r", ignores_unknown=False), Endless(), "f")
    assert [next(rows).values for _ in range(1000)] == [{"_id": "1"}] * 1000


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (MapType(StringType(), LongType()), "MAP"),
        (ArrayType(ArrayType(LongType())), "ARRAY"),
        (StructType().add("_VALUE", MONEY), "_VALUE"),
        (StructType().add("_a", ArrayType(LongType())), "_a"),
    ],
)
def test_a_type_that_no_element_has_is_refused(kind: Any, shown: str):
    with pytest.raises(TerminalStepError, match=f"columns: .*{shown}"):
        _build_node(StructType().add("c", kind), "columns")


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_spaces_and_empty_elements_are_those_of_the_declared_types(lab: Lab):
    content = "<rows><r n=' 1 '><s> a </s><l> 2 </l><l/></r><r><n/><s/></r></rows>"
    write(lab.root / "in/f.xml", content)
    source = SOURCE | {"columns": "_n INT, n INT, s STRING, l ARRAY<INT>"}
    lab.table("ods.t", {"source": source, "target": TARGET})
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(1, None, " a ", [2, None]), (None, None, "", None)]


def test_a_row_fails_its_own_window(lab: Lab):
    row = "<r d='2022-01-0{0}'><l><n>{1}</n></l><l><n>2</n></l></r>\n"
    write(lab.root / "in/f.xml", f"<rows>{row.format(1, 1)}{row.format(2, '1.0')}</rows>")
    source = SOURCE | {"columns": "_d DATE, l ARRAY<STRUCT<n: INT>>", "window_column": "_d"}
    lab.table("ods.t", {"source": source, "target": TARGET})
    assert lab.run("ods.t", day(1)).counts.target == 1
    assert [row[1] for row in lab.rows("ods.t")] == [[(1,), (2,)]]
    with pytest.raises(TerminalStepError, match=r"f.xml, line 2, element r: column l.* '1.0'"):
        lab.run("ods.t", day(2))


class TestXml(SourceConformance):
    @pytest.fixture
    def scene(self, lab: Lab) -> SourceScene:
        times = [datetime(2022, 1, d, h) for d, h in ((1, 1), (1, 23), (3, 0))]
        rows = "".join(f"<r><at>{each.isoformat()}</at></r>" for each in times)
        write(lab.root / "in/f.xml", f"<rows>{rows}</rows>")
        source = SOURCE | {"columns": "at TIMESTAMP", "window_column": "at"}
        target = TARGET | {"window_column": "at"}
        lab.table("ods.t", {"source": source, "target": target})
        return SourceScene(project=lab.project, start=lambda: lab.engine, counts=(2, 0, 1))
