"""Files of text are read strictly: what does not fit fails with its place, or is counted."""

import gzip
from decimal import Decimal
from typing import Any

import pytest

from logdriven_dagster.errors import InvalidProjectError, TerminalStepError
from tests.builders import at, day, days
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import TARGET, json_lines, load, refused

THREE = "a INT, b STRING, c INT"
TIMED = "a INT, b TIMESTAMP, c INT"


def csv(columns: str | None = THREE, **fields: Any) -> dict[str, Any]:
    named = {"columns": columns} if columns else {}
    return {"type": "csv", "path": "in", "header": True, **named, **fields}


CSV = {
    "a value of another type": (
        "1,x,2\nten,y,3\n",
        THREE,
        "line 3: column a holds 'ten', not a valid int",
    ),
    "a line with too few values": (
        "1,x,2\n1,y\n",
        THREE,
        "line 3: '1,y' has 2 values for 3 columns",
    ),
    "a line with too many values": (
        "1,x,2,9\n",
        THREE,
        "line 2: '1,x,2,9' has 4 values for 3 columns",
    ),
    "a quote in quotes": ('1,"x "y",2\n', THREE, "line 2: a quote after 'x ' neither ends"),
    "an empty text where a number belongs": (
        '"","x",2\n',
        THREE,
        "line 2: an empty text in quotes cannot be read",
    ),
    "a time without a day": (
        "1,10:00,2\n",
        TIMED,
        "line 2: column b holds '10:00', not a valid time",
    ),
    "a year": ("1,2022,2\n", TIMED, "line 2: column b holds '2022', not a valid timestamp;"),
    "a wall time that clocks skip": (
        "1,2022-03-27 02:30:00,2\n",
        TIMED,
        "line 2: column b holds '2022-03-27 02:30:00', not a valid timestamp since clocks skip it",
    ),
    "a decimal that would be rounded": (
        "1.239,x,1\n",
        "a DECIMAL(5, 2), b STRING, c INT",
        "line 2: column a holds 1.239, not a valid decimal(5,2)",
    ),
    "a decimal that is too long": (
        "1234.5,x,1\n",
        "a DECIMAL(5, 2), b STRING, c INT",
        "line 2: column a holds '1234.5'",
    ),
    "a time where a day belongs": (
        "1,2022-01-01 23:59,1\n",
        "a INT, b DATE, c INT",
        "line 2: column b holds '2022-01-01 23:59', not a valid date",
    ),
    "a header of another order": (
        "",
        "a INT, c INT, b STRING",
        "line 1: the header is a, b, c, the columns are a, c, b",
    ),
    "a header with more names": (
        "1,x,2\n",
        "a INT, b STRING",
        "line 1: the header has 3 names for 2 columns",
    ),
}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("case", CSV)
def test_csv_that_does_not_fit_is_refused_with_its_place(lab: Lab, case: str):
    lab.settings["timezone"] = "Europe/Berlin"
    lines, columns, told = CSV[case]
    lab.file("in/f.csv", "a,b,c\n" + lines)
    assert f"in/f.csv, {told}" in refused(lab, csv(columns))


@pytest.mark.sampled
@pytest.mark.parametrize("sql", ["SELECT b FROM source", "SELECT count(*) AS n FROM source"])
def test_lines_are_checked_for_every_column_that_a_query_reads(lab: Lab, sql: str):
    lab.file("in/f.csv", "a,b,c\n1,x,2\n1,y\n")
    assert "in/f.csv, line 3" in refused(lab, csv(), sql)


@pytest.mark.sampled
@pytest.mark.parametrize("line", ["1,y", "x,y,2"])
def test_a_file_whose_name_looks_like_a_pattern_is_named(lab: Lab, line: str):
    lab.file("in/f.csv", "a,b,c\n1,x,2\n")
    lab.file("in/{f}[1].csv", f"a,b,c\n1,x,2\n{line}\n")
    assert "in/{f}[1].csv, line 3" in refused(lab, csv())


def test_every_file_must_have_the_header_of_the_others(lab: Lab):
    lab.file("in/f.csv", "a,b\n1,2\n")
    lab.file("in/g.csv", "b,a\n1,2\n")
    assert "line 1: the header is" in refused(lab, csv(None))


@pytest.mark.sampled
@pytest.mark.parametrize("fields", [{}, {"options": {"encoding": "UTF-8"}}])
def test_bytes_that_are_no_text_are_refused(lab: Lab, fields: Any):
    (lab.root / "in").mkdir()
    (lab.root / "in/f.csv").write_bytes("a,b,c\n1,x,2\n1,Zürich,2\n".encode("latin-1"))
    told = "in/f.csv, line 3: column b holds bytes that cannot be decoded"
    assert told in refused(lab, csv(**fields))
    assert load(lab, csv(options={"encoding": "ISO-8859-1"})).counts.target == 2


@pytest.mark.connect
def test_the_character_for_such_bytes_may_stand_in_a_file(lab: Lab):
    lab.file("in/f.csv", "a,b,c\n1,x\ufffdy,2\n")
    load(lab, csv())
    assert lab.rows("ods.t") == [(1, "x\ufffdy", 2)]


def test_quotes_are_doubled_within_quotes(lab: Lab):
    lab.file("in/f.csv", 'a,b,c\n1,"say ""hi"", now",2\n')
    load(lab, csv())
    assert lab.rows("ods.t") == [(1, 'say "hi", now', 2)]


def test_an_empty_text_in_quotes_is_not_null(lab: Lab):
    lab.file("in/f.csv", 'a,b,c\n1,,2\n2,"",2\n')
    load(lab, csv())
    assert lab.rows("ods.t") == [(1, None, 2), (2, "", 2)]
    load(lab, csv(null_value=""))
    assert lab.rows("ods.t") == [(1, None, 2), (2, None, 2)]


JSON = {
    "a value of another type": (
        '{"a": 1}\n{"a": "x"}\n',
        "line 2: column a holds 'x', not a valid int",
    ),
    "half an object": ('{"a": 1}\n{"a":\n', "line 2: '{\"a\":' is not JSON"),
    "no object": ("5\n", "line 1: '5' is not a JSON object"),
    "a number with a fraction": ('{"a": 1.5}\n', "line 1: column a holds '1.5', not a valid int"),
}
TYPED_JSON = {
    "a number that wraps around": ("TINYINT", "128", "column a holds 128, not a valid tinyint"),
    "one in an array": (
        "ARRAY<TINYINT>",
        "[1, 200]",
        "column a.element holds 200, not a valid tinyint",
    ),
    "digits in an array": (
        "ARRAY<DECIMAL(5, 2)>",
        "[1.5, 1.239]",
        "column a.element holds 1.239, not a valid decimal(5,2)",
    ),
    "digits in an object": (
        "STRUCT<`x y`: DECIMAL(5, 2)>",
        '{"x y": 1.239}',
        "column a.x y holds 1.239, not a valid decimal",
    ),
    "digits in a map": (
        "MAP<STRING, DECIMAL(5, 2)>",
        '{"x": 1.239}',
        "column a.value holds 1.239",
    ),
    "a time without a day": (
        "TIMESTAMP",
        '"10:00"',
        "column a holds '10:00', not a valid timestamp",
    ),
    "milliseconds": (
        "TIMESTAMP",
        "1641000000000",
        "column a holds '1641000000000', not a valid time",
    ),
    "a time without a day in an object": (
        "STRUCT<at: TIMESTAMP, n: INT>",
        '{"at": "10:00", "n": 1}',
        "column a.at holds '10:00', not a valid timestamp;",
    ),
    "a time that clocks skip in an array": (
        "ARRAY<STRUCT<at: TIMESTAMP>>",
        '[{"at": 0}, null, {"at": null}, {"at": "2026-03-29 02:30:00"}]',
        "column a.element.at holds '2026-03-29 02:30:00', not a valid timestamp since clocks skip",
    ),
    "a time in a map": (
        "MAP<STRING, ARRAY<TIMESTAMP>>",
        '{"x": [], "y": ["2026-03-29 10:00:00", "soon"]}',
        "column a.value.element holds 'soon', not a valid timestamp",
    ),
    "digits below a microsecond": (
        "TIMESTAMP",
        '"2022-01-01T10:00:00.1234567Z"',
        "column a holds '2022-01-01T10:00:00.1234567Z', not a valid timestamp since it has digits",
    ),
    "such digits without a zone": (
        "STRUCT<at: TIMESTAMP_NTZ>",
        '{"at": "2022-1-1 1:2:3.1234567"}',
        "column a.at holds '2022-1-1 1:2:3.1234567', not a valid timestamp_ntz since it has digits",
    ),
    "such digits of an interval": (
        "ARRAY<INTERVAL DAY TO SECOND>",
        '["0 10:00:00.1234567"]',
        "column a.element holds '0 10:00:00.1234567', not a valid interval since it has digits",
    ),
    "a zone of a time without one": (
        "ARRAY<TIMESTAMP_NTZ>",
        '["2022-01-01T10:00:00Z"]',
        "column a.element holds '2022-01-01T10:00:00Z', not a valid timestamp_ntz",
    ),
}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("case", TYPED_JSON)
def test_json_numbers_and_times_are_what_they_are(lab: Lab, case: str):
    kind, text, told = TYPED_JSON[case]
    lab.settings["timezone"] = "Europe/Berlin"
    lab.file("in/f.json", f'{{"a": null}}\n{{"a": {text}}}\n')
    assert f"in/f.json, line 2: {told}" in refused(lab, json_lines(f"a {kind}"))
    assert load(lab, json_lines(f"a {kind}", mode="PERMISSIVE")).counts.malformed == 1
    assert lab.rows("ods.t") == [(None,), (None,)]


@pytest.mark.connect
def test_nested_times_of_json_are_read_as_those_of_columns(lab: Lab):
    lab.settings["timezone"] = "Europe/Berlin"
    times = (
        '"2026-03-29 10:00:00.123456000", "2026-07-01T10:00:00Z", "2026-07-01", 1641000000, null'
    )
    walls = '"2026-03-29 02:30:00", "2026-07-01T10:00:00.5", "2026-07-01"'
    lab.file("in/f.json", f'{{"a": [{times}], "b": {{"x": [{walls}]}}, "c": "2026-03-29 02:30"}}')
    columns = "a ARRAY<TIMESTAMP>, b STRUCT<x: ARRAY<TIMESTAMP_NTZ>>, c TIMESTAMP_NTZ"
    sql = (
        "SELECT transform(a, x -> unix_micros(x)) AS a, "
        "transform(b.x, x -> CAST(x AS STRING)) AS b, CAST(c AS STRING) AS c FROM source"
    )
    load(lab, json_lines(columns), sql)
    seconds = [
        at("2026-03-29 08:00:00").timestamp() + 0.123456,
        at("2026-07-01 10:00:00").timestamp(),
        at("2026-06-30 22:00:00").timestamp(),
        1641000000,
    ]
    ((a, b, c),) = lab.rows("ods.t")
    assert list(a) == [*(round(each * 1_000_000) for each in seconds), None]
    assert list(b) == ["2026-03-29 02:30:00", "2026-07-01 10:00:00.5", "2026-07-01 00:00:00"]
    assert c == "2026-03-29 02:30:00"


def test_times_that_spark_infers_are_refused_with_the_line_that_checks_them(lab: Lab):
    lab.file("in/f.csv", "a,b\n1,10:00\n")
    lab.file("in/f.json", '{"a": 1, "b": {"c": "10:00"}}\n')
    inferring = {
        "csv": csv(None, path="in/*.csv", options={"inferSchema": True}),
        "json": {"type": "json", "path": "in/*.json", "options": {"inferTimestamp": True}},
    }
    lines = {"csv": "`a` int, `b` timestamp", "json": "`a` bigint, `b` STRUCT<`c`: timestamp>"}
    for form, source in inferring.items():
        for mode in ("FAILFAST", "PERMISSIVE"):
            problem = refused(lab, source | {"mode": mode})
            assert "Spark infers times in the column b, and would read 10:00" in problem
            assert f'write columns: "{lines[form]}", which checks each value' in problem
        problem = refused(lab, source | {"columns": lines[form], "options": {}})
        assert "holds '10:00', not a valid timestamp" in problem


def test_json_of_another_encoding_is_read_and_its_undecodable_bytes_are_found(lab: Lab):
    path = lab.file("in/f.json", "")
    path.write_bytes('{"a": [{"x": "é"}, {"x": "€"}]}\n'.encode("windows-1252"))
    columns = "a ARRAY<STRUCT<x: STRING>>"
    with pytest.raises(InvalidProjectError, match='together with lineSep: "'):
        load(lab, json_lines(columns, options={"encoding": "windows-1252"}))
    source = json_lines(columns, options={"encoding": "windows-1252", "lineSep": "\n"})
    load(lab, source)
    (((one, other),),) = lab.rows("ods.t")
    assert (one["x"], other["x"]) == ("é", "€")
    path.write_bytes(b'{"a": [{"x": "y"}]}\n{"a": [{"x": "\x81"}]}\n')
    undecodable = "holds bytes that cannot be decoded"
    assert f"in/f.json, line 2: the line {undecodable}" in refused(lab, source)


@pytest.mark.parametrize("columns", [{"columns": "a STRING"}, {}])
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_undecodable_bytes_of_json_are_located_in_every_mode(lab: Lab, columns: Any, mode: str):
    path = lab.file("in/f.json", "")
    path.write_bytes(b'{"a": "y"}\n{"a": "\x81"}\n')
    options = {"encoding": "windows-1252", "lineSep": "\n"}
    source = {"type": "json", "path": "in", "mode": mode, "options": options, **columns}
    problem = refused(lab, source)
    assert "in/f.json, line 2: the line holds bytes that cannot be decoded" in problem
    assert "; fix the file, or set its encoding, as in options: {encoding: windows" in problem


def test_malformed_json_is_located_where_spark_infers_the_columns(lab: Lab):
    path = lab.file("in/f.json", '{"a": 1}\n{"a":\n')
    assert "in/f.json, line 2: '{\"a\":' is not JSON" in refused(
        lab, {"type": "json", "path": "in"}
    )
    path.write_bytes(b'{"a": "y"}\n{"a": "\xff"}\n')
    assert "in/f.json, line 2: " in refused(lab, {"type": "json", "path": "in"})


def test_a_malformed_interval_of_months_is_located(lab: Lab):
    lab.file("in/f.json", '{"a": "1-2"}\n{"a": "x"}\n')
    problem = refused(lab, json_lines("a INTERVAL YEAR TO MONTH"))
    assert "in/f.json, line 2: column a holds 'x', not a valid interval year to month" in problem


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("text", ["5d", "5F", "0x1p3", "1e", "five"])
def test_numbers_of_java_are_no_numbers_of_csv(lab: Lab, kind: str, text: str):
    lab.file("in/f.csv", f"a\n1.5\n-2E-3\n NaN\nInfinity\n-Inf\n{text}\n")
    problem = f"line 7: column a holds '{text}', not a valid {kind.lower()}"
    assert problem in refused(lab, csv(f"a {kind}"))
    load(lab, csv(f"a {kind}", mode="DROPMALFORMED"), "SELECT CAST(a AS STRING) AS a FROM source")
    expected = {"1.5", "-0.002", "NaN", "Infinity", "-Infinity"}
    assert {row[0] for row in lab.rows("ods.t")} == expected


FORMATS_OF_DIGITS = {
    "a comma": ("dd.MM.yyyy HH:mm:ss,[SSSSSSSSS][SSSSSSS]", "31.01.2022 10:00:00,", {}),
    "a locale": ("dd.MM.yyyy HH:mm:ss.SSSSSSSSS", "31.01.2022 10:00:00.", {"locale": "de-DE"}),
    "a zone": (
        "yyyy-MM-dd HH:mm:ss.SSSSSSSSS",
        "2022-01-31 16:00:00.",
        {"timeZone": "Asia/Yekaterinburg"},
    ),
    "a colon": ("yyyyMMdd HH:mm:ss:SSSSSSSSS", "20220131 10:00:00:", {}),
}


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
@pytest.mark.parametrize("case", FORMATS_OF_DIGITS)
def test_digits_that_a_format_reads_and_spark_cuts_are_refused(lab: Lab, case: str, kind: str):
    form, time, options = FORMATS_OF_DIGITS[case]
    is_local = kind == "TIMESTAMP_NTZ"
    name = "timestampNTZFormat" if is_local else "timestampFormat"
    lab.settings["timezone"] = "UTC"
    lab.file("in/f.csv", f"a\n{time}123456000\n{time}1234567\n")
    lab.file("in/f.json", f'{{"a": "{time}123456000"}}\n{{"a": "{time}1234567"}}\n')
    for source in (csv(f"a {kind}", sep=";", path="in/*.csv"), json_lines(f"a {kind}")):
        source |= {"path": f"in/*.{source['type']}", "options": {name: form, **options}}
        problem = f"column a holds '{time}1234567', not a valid {kind.lower()} since it has digits"
        assert f"line {3 - (source['type'] == 'json')}: {problem}" in refused(lab, source)


@pytest.mark.parametrize("case", FORMATS_OF_DIGITS)
def test_digits_that_a_format_reads_and_a_timestamp_keeps_are_read(lab: Lab, case: str):
    form, time, options = FORMATS_OF_DIGITS[case]
    lab.file("in/f.csv", f"a\n{time}123456000\n")
    source = csv("a TIMESTAMP", sep=";", options={"timestampFormat": form, **options})
    lab.settings["timezone"] = "UTC"
    load(lab, source, "SELECT CAST(a AS STRING) AS a FROM source")
    hour = 11 if case == "a zone" else 10
    assert lab.rows("ods.t") == [(f"2022-01-31 {hour}:00:00.123456",)]


CHANGED_TIMES = {
    "digits": ("2022-01-02 10:00:00.1234567", "since it has digits below a microsecond", 2),
    "a zone": ("2022-01-02T11:00:00.123456789+01:00", "since it has digits below", 2),
    "skipped": ("2022-03-27 02:30:00", "since clocks skip it; fix the file, or accept it", 86),
}


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("case", CHANGED_TIMES)
def test_a_time_of_a_window_column_that_spark_would_change_fails_its_window(
    lab: Lab, form: str, case: str
):
    bad, problem, number = CHANGED_TIMES[case]
    times = ["2022-01-01T10:00:00.123456000", bad]
    rows = ["at", *times] if form == "csv" else [f'{{"at": "{time}"}}' for time in times]
    lab.file("in/f", "\n".join(rows))
    columns = "at TIMESTAMP"
    source = csv(columns) if form == "csv" else json_lines(columns)
    step = {"source": source | {"window_column": "at"}, "target": TARGET}
    lab.settings["timezone"] = "Europe/Berlin"
    for fields in ({}, {"rows_outside": "ignore"}):
        lab.table("ods.t", step, **fields)
        assert lab.run("ods.t", day(1)).counts.target == 1
        with pytest.raises(TerminalStepError) as caught:
            lab.run("ods.t", day(number))
        assert f"line {len(rows)}: column at holds '{bad}', not" in str(caught.value)
        assert problem in str(caught.value)


def test_a_wall_time_of_a_window_column_of_csv_keeps_its_digits(lab: Lab):
    lab.file("in/f.csv", "at\n2022-01-01 10:00:00.123456\n2022-01-02 10:00:00.1234567\n")
    source = csv("at TIMESTAMP_NTZ", window_column="at")
    lab.table("ods.t", {"source": source, "target": TARGET})
    assert lab.run("ods.t", day(1)).counts.target == 1
    with pytest.raises(TerminalStepError, match=r"line 3: column at holds .* digits below"):
        lab.run("ods.t", day(2))


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_time_that_spark_would_change_belongs_to_no_window_of_a_lenient_source(
    lab: Lab, kind: str, mode: str
):
    times = ["2022-01-02 10:00:00.123456", "2022-01-02 10:00:00.1234567", "10:00"]
    lab.file("in/f.csv", "\n".join(["at", *times, ""]))
    source = csv(f"at {kind}", window_column="at", mode=mode)
    lab.table("ods.t", {"source": source, "target": TARGET})
    assert lab.run("ods.t", day(2)).counts.target == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timestampFormat": "HH:mm"}, "HH:mm does not always have a year"),
        ({"timestampNTZFormat": "[yyyy-MM-dd ]HH:mm 'y'"}, "does not always have a year"),
        ({"enableDateTimeParsingFallback": True}, "would read 10:00 as a time of today"),
    ],
)
def test_options_that_read_a_time_without_a_day_are_refused(
    lab: Lab, options: dict[str, Any], problem: str
):
    with pytest.raises(InvalidProjectError, match=problem):
        load(lab, csv(TIMED, options=options))


FORMATTED = ["27.03.2022 02:30", "27.03.2022 03:30", "27.03.2022 01:59"]


def test_a_time_of_a_format_that_clocks_skip_is_refused(lab: Lab):
    lab.settings["timezone"] = "Europe/Berlin"
    lab.file("in/f.csv", "\n".join(["at", *FORMATTED[1:], ""]))
    lab.file("in/f.json", "\n".join(f'{{"at": "{time}"}}' for time in FORMATTED[1:]))
    options = {"timestampFormat": "dd.MM.yyyy HH:mm"}
    sources = [csv("at TIMESTAMP", path="in/*.csv"), json_lines("at TIMESTAMP", path="in/*.json")]
    for source in sources:
        assert load(lab, source | {"options": options}).counts.target == 2
    lab.file("in/f.csv", "\n".join(["at", *FORMATTED, ""]))
    lab.file("in/f.json", "\n".join(f'{{"at": "{time}"}}' for time in FORMATTED))
    for source in sources:
        problem = refused(lab, source | {"options": options})
        assert f"column at holds '{FORMATTED[0]}', not a valid timestamp since clocks" in problem
        windowed = source | {"options": options, "window_column": "at"}
        lab.table("ods.t", {"source": windowed, "target": TARGET})
        with pytest.raises(TerminalStepError, match="since clocks skip it"):
            lab.run("ods.t", day(86))


def test_a_value_with_a_line_break_is_refused_with_the_option_that_reads_it(lab: Lab):
    lab.file("in/f.csv", 'a,b,c\n1,"x\ny",2\n')
    problem = refused(lab, csv())
    assert "in/f.csv, line 2" in problem
    assert "the line ends within quotes; options: {multiLine: true} reads values" in problem
    load(lab, csv(options={"multiLine": True}))
    assert lab.rows("ods.t") == [(1, "x\ny", 2)]


@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz"])
def test_quotes_that_never_end_fail_every_window(lab: Lab, name: str):
    text = '1,2022-01-01,"x"" y\nz"\n2,2022-01-01,"open\n3,2022-01-02,x\n'
    source = csv("a INT, at TIMESTAMP, b STRING", header=False, window_column="at")
    options = {"multiLine": True}
    lab.table("ods.t", {"source": source | {"options": options}, "target": TARGET})
    path, pack = lab.file(f"in/{name}", ""), gzip.compress if name.endswith("gz") else bytes
    path.write_bytes(pack(text.encode()))
    for number in (1, 2):
        with pytest.raises(TerminalStepError, match=f"in/{name}, line 3: the quotes of a value"):
            lab.run("ods.t", day(number))
    path.write_bytes(pack(text.replace('"open', '"closed"').encode()))
    assert lab.run("ods.t", day(1)).counts.target == 2


def test_json_over_several_lines_is_refused_with_the_field_that_reads_it(lab: Lab):
    lab.file("in/f.json", '[\n{"a": 1},\n{"a": 2}\n]\n')
    problem = refused(lab, json_lines("a INT"))
    assert "in/f.json, line" in problem
    assert "multiline: true reads documents and lists over several lines" in problem
    assert load(lab, json_lines("a INT", multiline=True)).counts.target == 2


def test_an_object_after_an_empty_list_in_its_line_is_found(lab: Lab):
    lab.file("in/f.json", '{"a": 1}\n[]{"a": 2}\n')
    assert "text after the end of the first JSON value" in refused(lab, json_lines("a INT"))


@pytest.mark.usefixtures("long")
def test_a_file_of_several_documents_is_refused_where_only_the_first_would_be_read(lab: Lab):
    problem = "in/f.json: the file has several JSON documents, but multiline: true reads"
    texts = ('{"a": 1}\n{"a": 2}\n', '{\n"a": 1\n}{"a": [\n]}', '[{"a": 1}]\n[{"a": 2}]')
    for text in (*texts, '\ufeff{"a": 1}\n{"a": 2}', '[]\n{"a": 2}', '{"a": 1}],[{"a": 2}'):
        lab.file("in/f.json", text)
        for source in (
            json_lines("a INT", multiline=True, mode="PERMISSIVE"),
            {"type": "json", "path": "in", "multiline": True},
        ):
            assert problem in refused(lab, source)
    lab.file("in/f.json", '{"a":\n 1')
    assert "several JSON documents" not in refused(lab, json_lines("a INT", multiline=True))


def test_text_in_utf_16_is_refused_with_what_reads_it(lab: Lab):
    path = lab.file("in/f.json", "")
    path.write_bytes('{"a": 1}\n{"a": 2}\n'.encode("utf-16"))
    problem = refused(lab, json_lines("a INT"))
    assert "in/f.json: the text is UTF-16LE, not UTF-8; write the file in UTF-8" in problem
    assert 'options: {encoding: UTF-16LE, lineSep: "\\n"} reads it without a byte' in problem
    options = {"encoding": "UTF-16LE", "lineSep": "\n"}
    assert "its text is not UTF-8" in refused(lab, json_lines("a INT", options=options))
    path.write_bytes('{"a": 1}\n{"a": 2}\n'.encode("utf-16-le"))
    assert load(lab, json_lines("a INT", options=options)).counts.target == 2


def test_csv_in_utf_16_is_read_with_its_encoding_and_line_separator(lab: Lab):
    path = lab.file("in/f.csv", "")
    path.write_bytes("a,b,c\n1,é,2\n".encode("utf-16"))
    assert "in/f.csv: the text is UTF-16LE, not UTF-8" in refused(lab, csv())
    load(lab, csv(options={"encoding": "UTF-16LE", "lineSep": "\n"}))
    assert lab.rows("ods.t") == [(1, "é", 2)]


@pytest.mark.parametrize("encoding", ["UTF-16", "utf-32", "UTF-16LE"])
def test_an_encoding_in_which_spark_finds_no_lines_is_refused(lab: Lab, encoding: str):
    lab.file("in/f.csv", "")
    with pytest.raises(InvalidProjectError, match="lineSep"):
        load(lab, csv(options={"encoding": encoding}))


def test_control_characters_of_a_record_are_escaped_in_its_error(lab: Lab):
    lab.file("in/f.csv", "a,b,c\n\x1b[2Jten,x,1\n")
    assert "line 2: column a holds '\\x1b[2Jten', not a valid int" in refused(lab, csv())
    lab.file("in/f.csv", "a,b,c\n1,\x1b[2J,2\n")
    problem = refused(lab, csv(TIMED))
    assert "line 2: column b holds '\\x1b[2J', not a valid timestamp" in problem
    lab.file("in/f.csv", "a,b\x1b[2J,c\n1,x,2\n")
    assert "line 1: the header is a, b\\x1b[2J, c, the columns are a, b, c;" in refused(lab, csv())


def test_a_long_malformed_value_and_folders_of_two_depths_are_named(lab: Lab):
    lab.file("in/f.csv", "a,b,c\n" + "y" * 200_000 + ",x,1\n")
    assert "in/f.csv, line 2: column a holds 'yyy" in refused(lab, csv())
    lab.file("in/f.csv", "").unlink()
    lab.file("in/x=1/f.csv", "a,b,c\n1,x,1\n")
    lab.file("in/x=1/y=2/f.csv", "a,b,c\n1,x,1\n")
    problem = refused(lab, csv())
    assert "folder names are different columns in different places" in problem
    assert "path: in/*/*" in problem


def test_an_empty_text_of_json_is_no_number(lab: Lab):
    lab.file("in/f.json", '{"a": 1}\n{"a": ""}\n')
    assert "in/f.json, line 2: column a holds '', not a valid int; fix" in refused(
        lab, json_lines()
    )


COMMAS = {
    "csv": ("csv", "a DECIMAL(12, 2)", "x\n12,5\n", "a", "holds '12,5', not a valid decimal(12,2)"),
    "thousands": (
        "csv",
        "a DECIMAL(12, 2)",
        "x\n1,234.56\n",
        "a",
        "holds '1,234.56', not a valid decimal(12,2)",
    ),
    "json": ("json", "a DECIMAL(12, 2)", '{"a": "12,50"}\n', "a", "holds '12,50', not a valid"),
    "an array": (
        "json",
        "a ARRAY<DECIMAL(12, 2)>",
        '{"a": [1, "12,50"]}\n',
        "a.element",
        "holds '12,50', not a valid decimal(12,2)",
    ),
    "a struct in a map": (
        "json",
        "a MAP<STRING, STRUCT<x: DECIMAL(12, 2), y: STRING>>",
        '{"a": {"k": {"x": "12,50", "y": "1,5"}}}\n',
        "a.value.x",
        "holds '12,50', not a valid decimal(12,2)",
    ),
}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("case", COMMAS)
def test_a_text_with_a_comma_is_no_decimal_unless_a_locale_overrides_it(lab: Lab, case: str):
    form, columns, text, column, problem = COMMAS[case]
    source: dict[str, Any] = {"type": form, "path": "in", "columns": columns}
    if form == "csv":
        source |= {"header": True, "sep": ";"}
        text = text.replace("x", "a", 1)
    lab.file("in/f", text)
    message = refused(lab, source)
    assert f"column {column} {problem}" in message
    assert "as in options: {locale: de-DE} for decimal commas" in message
    assert load(lab, source | {"mode": "PERMISSIVE"}).counts.malformed == 1


def test_a_locale_decides_the_meaning_of_a_comma(lab: Lab):
    lab.file("in/f.csv", "a\n12,5\n1.234,56\n")
    load(lab, csv("a DECIMAL(12, 2)", sep=";", options={"locale": "de-DE"}))
    assert lab.rows("ods.t") == [(Decimal("12.50"),), (Decimal("1234.56"),)]


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("form", ["csv", "json"])
def test_decimals_keep_every_digit_however_they_are_written(lab: Lab, form: str):
    given = ["12.5", "-0.001", "1e3", "12345678901234567890.123456789", "0", "1.500000000000"]
    lines = [f'{{"a": {text}}}' for text in given] + ['{"a": "7.25"}', '{"a": null}']
    lab.file("in/f.json", "\n".join(lines))
    lab.file("in/f.csv", "a,b\n" + "".join(f"{text},1\n" for text in [*given, "7.25", ""]))
    columns = "a DECIMAL(30, 9)"
    source = {"csv": csv(f"{columns}, b INT"), "json": json_lines(columns)}[form]
    load(lab, source | {"path": f"in/f.{form}"}, "SELECT a FROM source")
    expected = [Decimal(text) for text in [*given, "7.25"]]
    assert sorted(row[0] for row in lab.rows("ods.t") if row[0] is not None) == sorted(expected)
    assert (None,) in lab.rows("ods.t")


GOOD_TIMES = {
    "2022-01-05": "2022-01-05 00:00:00",
    " 2022-1-5 7:05": "2022-01-05 07:05:00",
    "2022-01-05T07:05:06.123456": "2022-01-05 07:05:06.123456",
    "2022-01-05 07:05:06Z": "2022-01-05 08:05:06",
    "2022-01-05 07:05:06-05": "2022-01-05 13:05:06",
    "2022-03-27 02:30:00+00:00": "2022-03-27 04:30:00",
    "2022-01-05 07:05:06 Asia/Tokyo": "2022-01-04 23:05:06",
    "2022-10-30 02:30:00": "2022-10-30 02:30:00",
}


@pytest.mark.connect
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_times_in_texts_are_of_the_clocks_of_the_project(lab: Lab, kind: str):
    lab.settings["timezone"] = "Europe/Berlin"
    rows = [f'{{"a": "{text}"}}' for text in GOOD_TIMES] + ['{"a": 1641366306}']
    lab.file("in/f.json", "\n".join(rows))
    lab.file("in/f.csv", "a\n" + "\n".join(GOOD_TIMES))
    source = {"csv": csv("a TIMESTAMP"), "json": json_lines("a TIMESTAMP")}[kind]
    load(lab, source | {"path": f"in/f.{kind}"}, "SELECT CAST(a AS STRING) AS a FROM source")
    numbers = ["2022-01-05 08:05:06"] if kind == "json" else []
    assert sorted(row[0] for row in lab.rows("ods.t")) == sorted([*GOOD_TIMES.values(), *numbers])


@pytest.mark.parametrize(
    ("kind", "option", "field"),
    [
        ("csv", "delimiter", "sep"),
        ("csv", "nullValue", "null_value"),
        ("csv", "header", "header"),
        ("json", "multiLine", "multiline"),
    ],
)
def test_an_option_that_is_a_field_has_one_place(lab: Lab, kind: str, option: str, field: str):
    with pytest.raises(InvalidProjectError, match=f"options.{option}: write it as {field}"):
        load(lab, {"type": kind, "path": "in", "options": {option: ";"}})


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("case", JSON)
def test_json_that_does_not_fit_is_refused_with_its_place(lab: Lab, case: str):
    text, told = JSON[case]
    lab.file("in/f.json", text)
    assert f"in/f.json, {told}" in refused(lab, json_lines())


def test_json_whose_bytes_are_no_utf_8_is_refused(lab: Lab):
    (lab.root / "in").mkdir()
    (lab.root / "in/f.json").write_bytes('{"b": "Zürich"}\n'.encode("latin-1"))
    assert "in/f.json" in refused(lab, json_lines())


def test_lines_of_text_whose_bytes_are_no_utf_8_are_refused(lab: Lab):
    (lab.root / "in").mkdir()
    (lab.root / "in/f.txt").write_bytes("ok\nZürich\n".encode("latin-1"))
    told = "in/f.txt, line 2: column value holds bytes that cannot be decoded"
    assert told in refused(lab, {"type": "text", "path": "in"})


BAD = "a,b,c\n1,x,2\nten,y,3\n4,z\n5,Z\ufffd,6\n"


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("target", ["iceberg", "csv", "jdbc"])
def test_a_permissive_source_counts_what_is_malformed(lab: Lab, target: str):
    lab.file("in/f.csv", BAD)
    where = {"connection": "lite", "table": "t"} if target == "jdbc" else {}
    ran = load(lab, csv(mode="PERMISSIVE"), target={"type": target, **where})
    assert (ran.counts.target, ran.counts.malformed) == (4, 3)
    assert (None, "y", 3) in lab.rows("ods.t")


@pytest.mark.connect
def test_malformed_records_are_left_out_and_counted(lab: Lab):
    lab.file("in/f.csv", BAD)
    ran = load(lab, csv(mode="DROPMALFORMED"), "SELECT a FROM source")
    assert (ran.counts.target, ran.counts.malformed) == (1, 3)


def test_a_permissive_source_without_columns_counts_too(lab: Lab):
    lab.file("in/f.json", '{"a": 1}\n{"a":\n')
    ran = load(lab, {"type": "json", "path": "in", "mode": "PERMISSIVE"})
    assert ran.counts.malformed == 1
    assert lab.engine.read("ods.t").columns == ["a"]


def test_a_source_that_is_read_by_a_later_step_is_counted_there(lab: Lab):
    lab.file("in/f.csv", BAD)
    lab.table(
        "ods.t",
        {"source": csv(mode="PERMISSIVE")},
        {"sql": "SELECT 1 AS one", "target": {"type": "csv", "path": "one"}},
        {"sql": "SELECT * FROM step_1", "target": TARGET},
    )
    staged = lab.run("ods.t", day(1)).staged
    assert [each.counts.malformed for each in staged] == [None, None, 3]


@pytest.mark.connect
def test_records_that_queries_of_queries_read_are_counted(lab: Lab):
    lab.file("in/f.csv", BAD)
    name = lab.table(
        "ods.t",
        {
            "source": csv(mode="DROPMALFORMED"),
            "sql": "SELECT source.a FROM Source WHERE a > :least",
        },
        {"sql": "WITH s AS (SELECT a FROM step_1 x) SELECT a FROM s", "target": TARGET},
        variables={"least": 0},
    )
    staged = lab.run(name, day(1)).staged
    assert [each.counts.malformed for each in staged] == [None, 3]


@pytest.mark.connect
def test_the_log_states_where_malformed_records_are_not_counted(lab: Lab):
    lab.file("in/f.csv", BAD)
    ran = load(lab, csv(mode="PERMISSIVE"), "SELECT 1 AS one")
    assert ran.counts.malformed is None
    assert "malformed records are not counted" in ran.staged[0].output


def test_strict_sources_count_nothing(lab: Lab):
    lab.file("in/f.csv", "a,b,c\n1,x,2\n")
    assert load(lab, csv()).counts.malformed is None


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("sql", [None, "SELECT at, count(n) AS n FROM source GROUP BY at"])
def test_each_window_of_a_stretch_counts_its_own(lab: Lab, sql: str | None):
    lab.file("in/f.csv", "at,n\n2022-01-01,1\n2022-01-02,x\n2022-01-02,y\n2022-01-03,z\n")
    source = csv("at TIMESTAMP, n INT", mode="PERMISSIVE", window_column="at")
    step = {"source": source, "target": {**TARGET, "window_column": "at"}}
    lab.table("ods.t", step | ({"sql": sql} if sql else {}))
    runs = [lab.window_run("ods.t", days(n, n + 1)) for n in (1, 2, 3)]
    with lab.engine.open_session(runs) as session:
        staged = session.stage(lab.project.table("ods.t").steps[0])
    assert [each.counts.malformed for each in staged] == [0, 2, 1]
    assert [each.counts.source for each in staged] == [1, 2, 1]


def test_another_windows_bad_record_is_another_windows_matter(lab: Lab):
    lab.file("in/f.csv", "at,n\n2022-01-01,1\n2022-01-02,x\n2022-01-02 12:00:00,1,2\n")
    source = csv("at TIMESTAMP, n INT", window_column="at")
    lab.table("ods.t", {"source": source, "target": TARGET})
    assert lab.run("ods.t", day(1)).counts.target == 1
    with pytest.raises(TerminalStepError, match=r"line 3: column n holds 'x'"):
        lab.run("ods.t", day(2))


def test_a_time_that_is_none_fails_every_window(lab: Lab):
    lab.file("in/f.csv", "at,n\n2022-01-01,1\nsoon,2\n")
    lab.table(
        "ods.t",
        {"source": csv("at TIMESTAMP, n INT", window_column="at"), "target": TARGET},
    )
    with pytest.raises(TerminalStepError, match=r"line 3: column at holds 'soon'"):
        lab.run("ods.t", day(1))


def test_the_mode_is_written_in_one_place(lab: Lab):
    lab.table("ods.t", {"source": csv(options={"mode": "PERMISSIVE"}), "target": TARGET})
    with pytest.raises(InvalidProjectError, match="write it as mode"):
        _ = lab.project
