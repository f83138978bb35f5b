"""Numbers whose types Spark infers keep their digits, or are refused with their place."""

from typing import Any

import pytest

from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import load, refused

INFERRING = {"type": "csv", "path": "in", "header": True, "options": {"inferSchema": True}}
JSON = {"type": "json", "path": "in"}

CODES = {
    "a code": ("1\n007\n", "'007', not a valid int"),
    "a code of many digits": ("1\n0070000000000\n", "'0070000000000', not a valid bigint"),
    "a code of more digits": (f"1\n00{'7' * 20}\n", f"'00{'7' * 20}', not a valid decimal(20,0)"),
    "a version": ("1.5\n01.5\n", "'01.5', not a valid double"),
    "a telephone number": ("1\n+4917012345678\n", "'+4917012345678', not a valid bigint"),
    "a letter": ("1.5\n5d\n", "'5d', not a valid double"),
    "digits that a double lacks": (
        "1.5\n9007199254740993.0\n",
        "'9007199254740993.0', not a valid double",
    ),
    "too large": ("1.5\n1e400\n", "'1e400', not a valid double"),
}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("case", CODES)
def test_numbers_of_csv_that_an_inferred_type_would_change_are_refused(lab: Lab, case: str):
    text, problem = CODES[case]
    lab.file("in/f.csv", f"a\n{text}")
    message = refused(lab, INFERRING)
    assert f"in/f.csv, line 3: column a holds {problem} since Spark infers this type" in message
    assert "which would change it; set the type of the column in columns" in message
    assert load(lab, INFERRING | {"mode": "PERMISSIVE"}).counts.malformed == 1
    assert (None,) in lab.rows("ods.t")


def test_such_numbers_are_read_as_the_declared_type(lab: Lab):
    lab.file("in/f.csv", "a\n007\n")
    load(lab, INFERRING | {"columns": "a STRING"})
    assert lab.rows("ods.t") == [("007",)]


NUMBERS = {
    "an integer among fractions": ("[1.5, 9007199254740993]", "9007199254740993"),
    "digits of an object": ('{"x": 0.12345678901234567891}', "0.12345678901234567891"),
    "too many digits": (f"1{'0' * 40}1", f"1{'0' * 40}1"),
}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_of_json_with_more_digits_than_a_double_are_refused(lab: Lab, case: str):
    text, number = NUMBERS[case]
    lab.file("in/f.json", f'{{"a": null}}\n{{"a": {text}}}\n')
    message = refused(lab, JSON)
    assert "in/f.json, line 2: column a" in message
    assert f"holds '{number}', not a valid double since Spark infers this type" in message
    assert load(lab, JSON | {"mode": "PERMISSIVE"}).counts.malformed == 1


@pytest.mark.connect
def test_inferred_numbers_that_a_type_holds_are_read(lab: Lab):
    doubles = ["0.1", "-1.50", "1e3", "2.5E-30", "0.30000000000000004", "9007199254740994", "0"]
    wide = [*doubles, "1.7976931348623157E308", "4.9E-324", "-0.0", "9007199254740992e3"]
    lab.file("in/f.csv", "a,b,c\n" + "".join(f"{text},-12,x\n" for text in wide))
    load(lab, INFERRING)
    rows = lab.rows("ods.t")
    assert sorted(row[0] for row in rows) == sorted(map(float, wide))
    assert {row[1:] for row in rows} == {(-12, "x")}
    lab.file("in/f.csv", "").unlink()
    lab.file("in/f.json", "".join(f'{{"a": [{{"x": {text}}}], "b": 7}}\n' for text in wide))
    load(lab, JSON, "SELECT a[0].x AS a, b, 'x' AS c FROM source")
    assert sorted(row[0] for row in lab.rows("ods.t")) == sorted(map(float, wide))


@pytest.mark.parametrize("form", ["csv", "json"])
def test_inferred_infinities_are_read(lab: Lab, form: str):
    source: dict[str, Any] = {"csv": INFERRING, "json": JSON}[form]
    lab.file("in/f", "a\n1.5\nNaN\nInf\n-Inf\n" if form == "csv" else "")
    if form == "json":
        lab.file("in/f", '{"a": 1.5}\n{"a": NaN}\n{"a": Infinity}\n{"a": -Infinity}\n')
    load(lab, source, "SELECT CAST(a AS STRING) AS a FROM source")
    assert {row[0] for row in lab.rows("ods.t")} == {"1.5", "NaN", "Infinity", "-Infinity"}
