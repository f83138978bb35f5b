"""Reports of tests as text and as JUnit XML."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from unicodedata import normalize
from xml.etree import ElementTree as ET

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.arrow.values import text_of
from logdriven_dagster.errors import ConfigError
from logdriven_dagster.plugins.table_tests.comparison import Difference, RowDiff
from logdriven_dagster.plugins.table_tests.results import Outcome

MISSING, UNEXPECTED, CHANGED = "-", "+", "~"
"""Marks of an expected row that is missing, of an unexpected row, and of one with other values."""
_MEANINGS = {MISSING: "missing", UNEXPECTED: "unexpected", CHANGED: "expected → found"}
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def describe_outcome(outcome: Outcome, most: int | None = None) -> Iterator[str]:
    """Yield the lines that describe the problems of a test.

    `most` is the maximum number of different rows to describe; None for all.
    """
    for problem in outcome.problems:
        if isinstance(problem, ConfigError):
            yield redact(str(problem).replace(f"{problem.path}", _shorten(problem.path)))
            continue
        place = f"{_shorten(outcome.test.document.path)}:{problem.line}"
        diff = problem.diff
        counts = "" if diff is None else f": {diff.expected} expected, {diff.found} found"
        yield redact(f"{place}: {problem.problem}{counts}")
        if diff is not None:
            yield from (redact(line) for line in describe_rows(diff, most))
        yield from (f"  note: {note}" for note in problem.notes)


def describe_rows(diff: RowDiff, most: int | None = None) -> Iterator[str]:
    """Yield the rows that differ as lines of a table, with a mark for the kind of difference."""
    shown = diff.differences[:most]
    lines = [["", *diff.columns, ""], *(_describe_row(each, diff.columns) for each in shown)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
    if left := len(diff.differences) - len(shown):
        yield f"  and {left:,} more"


def _describe_row(each: Difference, columns: Sequence[str]) -> list[str]:
    if each.expected is None or each.found is None:
        mark = MISSING if each.found is None else UNEXPECTED
        row = each.expected or each.found or {}
        return [mark, *(_text(row[name]) for name in columns), _MEANINGS[mark]]
    cells = []
    for name in columns:
        expected, found = _text(each.expected[name]), _text(each.found[name])
        differs = name in each.columns
        if differs and normalize("NFKC", expected) == normalize("NFKC", found):
            expected, found = ascii(each.expected[name]), ascii(each.found[name])
        cells.append(f"{expected} → {found}" if differs else expected)
    return [CHANGED, *cells, _MEANINGS[CHANGED]]


def _text(value: object) -> str:
    """Return a value as text; quotes show texts that are empty, padded, unprintable or `NULL`."""
    text = text_of(value)
    is_plain = text.isprintable() and text == text.strip() != ""
    is_plain = is_plain and not (isinstance(value, str) and text == text_of(None))
    return text if is_plain else repr(text)


def _shorten(path: Path) -> str:
    """Return a path relative to the current folder, if it lies there."""
    short = os.path.relpath(path)
    return str(path) if short.startswith("..") else short


def build_junit(outcomes: Sequence[Outcome], project: str) -> str:
    """Return the results as JUnit XML: a mistake in a test is an error, not a failure."""
    failed = sum(not each.has_passed and not each.is_broken for each in outcomes)
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(failed),
        "errors": str(sum(each.is_broken for each in outcomes)),
        "time": f"{sum(each.seconds for each in outcomes):.3f}",
    }
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": project, **counts})
    for outcome in outcomes:
        spec = outcome.test.spec
        attributes = {
            "classname": spec.table,
            "name": spec.test,
            "file": _shorten(outcome.test.document.path),
            "line": str(outcome.test.line),
            "time": f"{outcome.seconds:.3f}",
        }
        clean = {name: _NOT_IN_XML.sub("?", value) for name, value in attributes.items()}
        case = ET.SubElement(suite, "testcase", clean)
        if outcome.has_passed:
            continue
        lines = [_NOT_IN_XML.sub("?", line) for line in describe_outcome(outcome)]
        tag = "error" if outcome.is_broken else "failure"
        ET.SubElement(case, tag, {"message": lines[0]}).text = "\n".join(lines)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
