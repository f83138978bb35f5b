"""Keys of JSON that Spark's reader passes over are refused with their place."""

import pytest

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import TARGET, json_lines, load, refused

KEYS = {
    "a field that no column names": (
        '{"a": 1}\n{"a": 1, "c": 2}\n',
        "line 2: field c is not in columns; add it to columns",
    ),
    "a renamed field of an object": (
        '{"o": {"x": 1.50, "why": 1}}\n',
        "line 1: field o.why is not in columns",
    ),
    "a field of an object in an array": (
        '{"l": [{"x": 1}, {"Y": 1}]}\n',
        "line 1: field l.Y is not in columns",
    ),
    "a field of an object in a map": (
        '{"m": {"k": {"x": 1, "\'": 1}}}\n',
        "line 1: field m.' is not in columns",
    ),
    "a field of an object in a line of them": (
        '[{"a": 1}, {"z": 1}]\n',
        "line 1: field z is not in columns",
    ),
    "a key that appears twice": (
        '{"a": 1}\n{"a": 1, "a": 1}\n',
        "line 2: key a appears twice in one object; fix the file",
    ),
    "a key that appears twice in an object": (
        '{"o": {"x": 1, "x": 2}}\n',
        "line 1: key o.x appears twice",
    ),
    "a key of a map that appears twice": (
        '{"m": {"k": {}, "k": {}}}\n',
        "line 1: key m.k appears twice",
    ),
    "with single quotes": ("{'a': 1, 'a': 2}\n", "line 1: key a appears twice"),
}
NESTED = "a INT, o STRUCT<x: DOUBLE>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>"


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("case", KEYS)
def test_keys_of_json_that_would_be_passed_over_are_refused(lab: Lab, case: str):
    text, told = KEYS[case]
    lab.file("in/f.json", text)
    assert f"in/f.json, {told}" in refused(lab, json_lines(NESTED))
    assert load(lab, json_lines("a INT", unknown_fields="ignore", mode="PERMISSIVE"))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("document", "records"),
    [('{"a": 1, "b": {"any": 1, "any": 2}}', 1), ('[{"a": 1}, {}]', 2), ("", 0)],
)
def test_fields_may_be_absent_and_texts_hold_any_keys(lab: Lab, document: str, records: int):
    lab.file("in/f.json", document)
    assert load(lab, json_lines(multiline=True)).counts.target == records


def test_another_windows_unknown_field_is_another_windows_matter(lab: Lab):
    lab.file("in/f.json", '{"at": "2022-01-01", "n": 1}\n{"at": "2022-01-02", "m": 1}\n')
    lab.table(
        "ods.t",
        {"source": json_lines("at TIMESTAMP, n INT", window_column="at"), "target": TARGET},
    )
    assert lab.run("ods.t", day(1)).counts.target == 1
    with pytest.raises(TerminalStepError, match=r"line 2: field m is not in columns"):
        lab.run("ods.t", day(2))


def test_json_whose_columns_are_found_out_has_each_key_once(lab: Lab):
    lab.file("in/f.json", '{"a": 1}\n{"a": 1, "b": {"c": 1, "c": 1}}\n')
    assert "there are two columns named c" in refused(lab, {"type": "json", "path": "in"})


@pytest.mark.parametrize("record", ['{"A": 2}', '{"a": 1, "o": {"X": 1}}'])
def test_inferred_keys_that_differ_in_case_only_are_refused(lab: Lab, record: str):
    lab.file("in/f.json", f'{{"a": 1, "o": {{"x": 1}}}}\n{record}\n')
    message = refused(lab, {"type": "json", "path": "in"})
    assert "in/f.json, line 2: field " in message or "two columns named" in message
    lab.file("in/f.json", f'{{"a": 1}}\n{record}\n')
    source = {"type": "json", "path": "in", "unknown_fields": "ignore"}
    assert load(lab, source).counts.target == 2


HALVES = [r"\ud83d", r"\\\udc36 x", r"\uD83D\ud83d\ude00", r"\ude00\ud83d"]
WHOLE = [r"\ud83d\ude00", r"\\ud83d", "😀", r"\u00e9"]


def test_an_escape_of_half_a_character_is_refused_with_its_line(lab: Lab):
    for number, text in enumerate(HALVES):
        lines = [f'{{"a": {n}, "b": "{each}"}}' for n, each in enumerate([*WHOLE, text])]
        lab.file(f"in{number}/f.json", "\n".join(lines))
        for source in (json_lines(), {"type": "json"}):
            message = refused(lab, source | {"path": f"in{number}"})
            assert f"in{number}/f.json, line {len(lines)}: escape \\u" in message
            assert "is half of a character, which Spark reads as a question mark" in message
    lab.file("whole/f.json", "\n".join(lines[:-1]))
    load(lab, json_lines() | {"path": "whole"})
    assert [row[1] for row in lab.rows("ods.t")] == ["😀", r"\ud83d", "😀", "é"]


AFTER = [
    '{"a": 2}{"a": 3}',
    '{"a": 2},{"a": 3}',
    '{"a": 2} x',
    '{"a": 2}], [3',
    '[{"a": 2}] [{"a": 3}]',
]
ALONE = ['{"b": "}{"}', '{"b": "y"} ,', '{"b": "x"} ', '[{"a": 1}, {"a": 2}]', "{'b': '}'}", ""]


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [{"columns": "a INT, b STRING"}, {}])
def test_a_second_object_in_a_line_is_refused_in_every_mode(lab: Lab, columns: dict[str, str]):
    for number, line in enumerate(AFTER):
        lab.file(f"in{number}/f.json", "\n".join([*ALONE, line]))
        for mode in ("FAILFAST", "DROPMALFORMED"):
            fields = {"mode": mode, "unknown_fields": "ignore", "path": f"in{number}", **columns}
            message = refused(lab, {"type": "json", **fields})
            assert f"in{number}/f.json, line {len(ALONE) + 1}: text after the end of the" in message
            assert "is not read by Spark; write each object in a line of its own" in message
    lab.file("alone/f.json", "\n".join(ALONE))
    assert load(lab, {"type": "json", "path": "alone", **columns}).counts.target == 6


def test_a_second_object_in_a_line_fails_every_window(lab: Lab):
    lab.file("in/f.json", '{"at": "2022-01-01"}{"at": "2022-01-02"}\n{"at": "2022-01-03"}\n')
    source = json_lines("at TIMESTAMP", window_column="at")
    lab.table("ods.t", {"source": source, "target": TARGET})
    for number in (1, 2, 3):
        with pytest.raises(TerminalStepError, match="line 1: text after the end of the first"):
            lab.run("ods.t", day(number))
