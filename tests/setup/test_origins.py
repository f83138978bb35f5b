"""docs/evidence/origins.md lists origins of behaviours; tests' names end with codes of its rows."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/evidence/origins.md").read_text()
CODE = re.compile(r"[kmydsb]\d\d")
ROWS = dict(re.findall(r"^- \*\*([A-Z]\d\d)\*\* (.+)$", PAGE, re.MULTILINE))


@cache
def names() -> frozenset[str]:
    """The names of all tests."""
    return frozenset(
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)
    )


def codes_of(test: str) -> set[str]:
    """The rows that a test's name ends with."""
    found = set[str]()
    for word in reversed(test.split("_")):
        if not CODE.fullmatch(word):
            break
        found.add(word.upper())
    return found


def test_every_code_at_the_end_of_a_name_is_a_row_and_codes_stand_nowhere_else() -> None:
    for test in names():
        assert codes_of(test) <= ROWS.keys(), test
        assert len(CODE.findall(test)) == len(codes_of(test)), test


@pytest.mark.parametrize("code", ROWS)
def test_every_row_names_tests_that_exist_or_why_it_has_none(code: str) -> None:
    named = re.findall(r"`(test_\w+)`", ROWS[code])
    with_code = {test for test in names() if code in codes_of(test)}
    if "*Not built:*" in ROWS[code]:
        assert not named
        assert not with_code
        return
    assert named
    assert set(named) <= names()
    assert not with_code or with_code & set(named), f"name one of {sorted(with_code)}"


def test_rows_are_reported_once_and_in_their_order() -> None:
    told = re.findall(r"^- \*\*([A-Z]\d\d)\*\*", PAGE, re.MULTILINE)
    assert len(told) == len(set(told))
    for letter in dict.fromkeys(code[0] for code in told):
        of_one = [code for code in told if code[0] == letter]
        assert of_one == [f"{letter}{n:02}" for n in range(1, len(of_one) + 1)]


def test_the_package_names_systems_not_codes() -> None:
    for path in (ROOT / "logdriven_dagster").rglob("*.py"):
        assert not re.search(r"\b[KMYDSB]\d\d\b|DESIGN §", path.read_text()), path
