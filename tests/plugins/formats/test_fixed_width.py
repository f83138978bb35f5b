"""Lines of fixed width are cut by positions; each value is converted as strictly as in CSV."""

import gzip
from functools import reduce
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.batches import PROBLEM, Record
from logdriven_dagster.plugins.formats.fixed_width import _Layout, _read_lines
from logdriven_dagster.plugins.formats.models import FixedWidthSource
from logdriven_dagster.plugins.formats.texts import convert_texts
from logdriven_dagster.testing.conformance import SourceConformance, SourceScene
from tests.builders import at, day
from tests.engine.laboratory import Lab
from tests.execution.conftest import World

TARGET = {"type": "parquet"}
SOURCE = {"type": "fixed_width", "path": "in"}
CUTS = (("id", 0, 3), ("name", 3, 8))


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


def load(lab: Lab, columns: str, widths: list[int], number: int = 1, **fields: Any) -> Any:
    source = SOURCE | {"columns": columns, "widths": widths} | fields
    lab.table("ods.t", {"source": source, "target": TARGET})
    return lab.run("ods.t", day(number))


def refused(lab: Lab, columns: str, widths: list[int], **fields: Any) -> str:
    with pytest.raises(TerminalStepError) as caught:
        load(lab, columns, widths, **fields)
    return str(caught.value)


def cut(content: bytes, encoding: str = "utf-8-sig", header_lines: int = 0) -> list[Record]:
    return list(_read_lines(_Layout(CUTS, encoding, header_lines), BytesIO(content), "f"))


def values(content: bytes, encoding: str = "utf-8-sig", header_lines: int = 0) -> list[Any]:
    return [record.values for record in cut(content, encoding, header_lines)]


@pytest.mark.parametrize(
    ("encoding", "codec"), [("utf-8-sig", "utf-8"), ("utf-16", "utf-16"), ("cp932", "cp932")]
)
def test_positions_count_characters(encoding: str, codec: str):
    content = "1  山田 x \r\n 22ab   \n".encode(codec)
    assert values(content, encoding) == [{"id": "1", "name": "山田 x"}, {"id": "22", "name": "ab"}]


def test_blank_values_are_null_and_empty_lines_are_left_out():
    assert values(b"   ab   \n\n1       \n") == [{"name": "ab"}, {"id": "1"}]


def test_a_mark_of_utf_8_and_header_lines_are_not_read():
    assert values("\ufeff1  ab   \n".encode()) == [{"id": "1", "name": "ab"}]
    assert values(b"header\n\n2  ab   \n", header_lines=1) == [{"id": "2", "name": "ab"}]


def test_blanks_after_the_last_column_are_allowed():
    assert values(b"1  abcde   \n") == [{"id": "1", "name": "abcde"}]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"1  abcde\n1  abcd\n", "f, line 2: the line has 7 characters, but the columns have 8"),
        (b"1  abcde x\n", "f, line 1: the line has 10 characters, but the columns have 8"),
        (b"1  ab\xff\n", "6 characters, but the columns have 8, and bytes that are not utf-8"),
        (b"x" * 3_000_000, "has 1048576 characters"),
    ],
)
def test_a_line_of_another_length_is_refused(content: bytes, problem: str):
    with pytest.raises(TerminalStepError, match=problem):
        cut(content)


@pytest.mark.parametrize(
    ("encoding", "content"), [("utf-8-sig", b"1  ab\xffcd\n"), ("ascii", b"1  ab\xe9cd\n")]
)
def test_bytes_outside_the_encoding_are_a_problem_of_their_column(encoding: str, content: bytes):
    (record,) = cut(content, encoding)
    assert record.problems == {"name": f"holds bytes that are not {encoding}"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"widths": [0]}, "greater than or equal to 1"),
        ({"widths": [1, 2], "starts": [1]}, "starts has 1 positions, but widths has 2 numbers"),
        ({"widths": [3, 2], "starts": [1, 3]}, "starts: 3 is within the column before it"),
        ({"widths": [1], "encoding": "hex"}, "hex is not an encoding"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(fields: dict[str, Any], problem: str):
    with pytest.raises(ValidationError, match=problem):
        FixedWidthSource(type="fixed_width", path="in", columns="a INT", **fields)


def test_each_column_has_a_width():
    source = FixedWidthSource(type="fixed_width", path="in", columns="a INT, b INT", widths=[1])
    (mistake,) = source.mistakes()
    assert mistake[:2] == ("widths", "has 1 numbers, but columns has 2 columns")


READ: dict[str, tuple[str, str]] = {
    "STRING": ('"a", b', '"a", b'),
    "BOOLEAN": ("true", "true"),
    "TINYINT": ("-128", "-128"),
    "INT": ("007", "7"),
    "BIGINT": ("9223372036854775807", "9223372036854775807"),
    "DOUBLE": ("1.5E3", "1500.0"),
    "DECIMAL(9, 2)": ("12.5", "12.50"),
    "DATE": ("2022-01-02", "2022-01-02"),
    "TIMESTAMP": ("2022-01-02T03:04:05.123456Z", "1641092645123456"),
    "TIMESTAMP_NTZ": ("2022-01-02 03:04:05", "2022-01-02 03:04:05"),
}
MISFITS = {
    "BOOLEAN": "yes",
    "TINYINT": "128",
    "INT": "1,2",
    "BIGINT": "1.0",
    "FLOAT": "5d",
    "DECIMAL(4, 2)": "1.234",
    "DATE": "2022-01-02x",
    "TIMESTAMP": "10:00",
    "TIMESTAMP_NTZ": "2022-01-02 00:00:00.1234567",
    "ARRAY<STRUCT<x: INT>>": "1.0",
}


def test_texts_are_converted_as_in_csv_or_have_a_problem(spark: Any):
    kinds = [*READ, *MISFITS]
    texts = [*(text for text, _ in READ.values()), *MISFITS.values()]
    ddl = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds))
    source = FixedWidthSource(type="fixed_width", path="in", columns=ddl, widths=[1] * len(kinds))
    given = [
        f"array(struct('{text}' AS x)) AS c{number}"
        if kinds[number].startswith("ARRAY")
        else f"'{text}' AS c{number}"
        for number, text in enumerate(texts)
    ]
    one = spark.range(1).selectExpr(*given, "'f, line 1' AS _logdriven_place")
    # A row of texts that fit, and one of a misfit for each type.
    lines = [
        one.selectExpr(
            *(
                f"CASE WHEN {number < len(READ) or number == misfit} THEN c{number} END c{number}"
                for number in range(len(kinds))
            ),
            "_logdriven_place",
            f"CAST(NULL AS STRING) AS {PROBLEM}",
        )
        for misfit in range(len(READ) - 1, len(kinds))
    ]
    converted = convert_texts(
        reduce(type(one).union, lines), source, one.sparkSession.createDataFrame([], ddl).schema
    )
    shown = [
        f"CAST({f'unix_micros(c{n})' if k == 'TIMESTAMP' else f'c{n}'} AS STRING)"
        for n, k in enumerate(READ)
    ]
    good, *bad = converted.selectExpr(PROBLEM, *shown).collect()
    assert list(good) == [None, *(expected for _, expected in READ.values())]
    for number, (row, text) in enumerate(zip(bad, MISFITS.values(), strict=True), len(READ)):
        assert row[0].startswith(f"f, line 1: column c{number}")
        assert f"{text}" in row[0]
        assert ", not a valid" in row[0]


def test_a_line_fails_its_own_window(lab: Lab):
    path = write(lab.root / "in/f.txt", "2022-01-01 1", "2022-01-02 x")
    assert load(lab, "d DATE, n INT", [10, 2], window_column="d").counts.target == 1
    with pytest.raises(TerminalStepError, match=r"in/f.txt, line 2: column n holds 'x', not a"):
        lab.run("ods.t", day(2))
    # A window column that does not fit fails every window.
    write(path, "2022-01-01 1", "01.02.2022 1")
    with pytest.raises(TerminalStepError, match=r"in/f.txt, line 2: column d holds '01.02.2022'"):
        lab.run("ods.t", day(1))


def test_a_key_that_does_not_fit_fails_every_window(spark: Any, world: World):
    write(world.root / "in/f.txt", "1", "x")
    world.write(
        "tables/t.yaml",
        """
        table: ods.t
        incremental_type: auto_inc_id
        period: 1 day
        steps:
          - step: load
            source: {type: fixed_width, path: in, columns: "id INT", widths: [1], key_column: id}
            target: {type: parquet}
        """,
    )
    events = str(list(world.catch_up(now=at("2022-01-04"))))
    assert (
        "in/f.txt, line 2: column id holds 'x', not a valid int; fix the file, or declare" in events
    )


def test_columns_may_start_anywhere_in_compressed_files(lab: Lab):
    path = write(lab.root / "in/day=1/f.txt", "Report", "1-ab--2", encoding="utf-8")
    content = path.read_bytes()
    path.unlink()
    path.with_name("f.txt.gz").write_bytes(gzip.compress(content))
    load(lab, "a INT, b INT", [1, 1], starts=[1, 7], header_lines=1)
    assert lab.rows("ods.t") == [(1, 2, 1)]
    path.with_name("f.txt.gz").write_bytes(gzip.compress(content)[:-4])
    assert "f.txt.gz: the file is not complete gzip data" in refused(
        lab, "a INT, b INT", [1, 1], starts=[1, 7], header_lines=1
    )
    assert "a text cannot be binary" in refused(lab, "a BINARY", [1])


class TestFixedWidth(SourceConformance):
    @pytest.fixture
    def scene(self, lab: Lab) -> SourceScene:
        times = ["2022-01-01 01:00", "2022-01-01 23:00", "2022-01-03 00:00"]
        write(lab.root / "in/f.txt", *times)
        source = SOURCE | {"columns": "at TIMESTAMP", "widths": [16], "window_column": "at"}
        target = TARGET | {"window_column": "at"}
        lab.table("ods.t", {"source": source, "target": target})
        return SourceScene(project=lab.project, start=lambda: lab.engine, counts=(2, 0, 1))
