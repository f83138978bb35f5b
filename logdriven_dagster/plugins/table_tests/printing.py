"""Results of tests of tables on a terminal and as JSON."""

from collections.abc import Sequence
from typing import IO

from logdriven_dagster.cli.shown import rendering
from logdriven_dagster.plugins.table_tests import reports
from logdriven_dagster.plugins.table_tests.results import Outcome

_MOST_ROWS = 20
"""Differences of a test that are printed; JSON and XML have them all."""
_STYLES = {"passed": "green", "failed": "bold red", "broken": "bold yellow"}
_MARKS = {reports.MISSING: "red", reports.UNEXPECTED: "green", reports.CHANGED: "yellow"}


def print_outcome(outcome: Outcome, output: IO[str]) -> None:
    """Print a test with its result; a failed one with its differences."""
    console, spec, word = rendering.make_console(output), outcome.test.spec, _get_word(outcome)
    line = rendering.format_plain(word, _STYLES[word])
    line.append_text(rendering.format_plain(f"  {spec.table}: {spec.test}"))
    line.append(f"  {outcome.seconds:.1f} s", "dim")
    console.print(line, soft_wrap=True)
    for text in reports.describe_outcome(outcome, _MOST_ROWS):
        style = _MARKS.get(text.strip()[:1], "") if text.startswith("  ") else ""
        console.print(rendering.format_plain(f"  {text}", style), soft_wrap=True)


def print_summary(outcomes: Sequence[Outcome]) -> None:
    """Print how many tests have passed."""
    counted = [
        f"{number} {word}"
        for word in _STYLES
        if (number := sum(_get_word(each) == word for each in outcomes)) or word == "passed"
    ]
    seconds = sum(each.seconds for each in outcomes)
    rendering.print_line(f"{', '.join(counted)} in {seconds:.1f} s")


def print_as_json(outcomes: Sequence[Outcome]) -> None:
    """Print the results as a JSON list."""
    rendering.print_json_list(
        {
            "test": each.test.spec.test,
            "table": each.test.spec.table,
            "file": str(each.test.document.path),
            "line": each.test.line,
            "result": _get_word(each),
            "seconds": round(each.seconds, 3),
            "problems": list(reports.describe_outcome(each)),
        }
        for each in outcomes
    )


def _get_word(outcome: Outcome) -> str:
    return "passed" if outcome.has_passed else "broken" if outcome.is_broken else "failed"
