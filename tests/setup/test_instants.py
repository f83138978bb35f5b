"""Below the edge there are instants only: the zone cuts grids and prints, nothing else.

Two datetimes of one zone compare by wall clock in Python, so the two hours of an autumn night would
be equal. `TimeWindow`, `Grid` and `Claim` make instants of what they are given; here the code is
read for datetimes of a zone that would go past them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "logdriven_dagster"
BELOW = ("model", "planning", "runlog", "execution/catching_up")
CALENDAR = {"model/periods.py", "model/windows.py"}
"""Here wall clocks are counted with, or made for texts."""
EDGE = {"convert_to_zone", "on_clock"}
UTC = {"timezone.utc", "utc", "UTC"}


def zoned(tree: ast.AST) -> Iterator[str]:
    """Yield what in a module could make a datetime of a zone that is then counted with."""
    printed = {id(part) for node in ast.walk(tree) for part in _printed(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (names := {a.name for a in node.names} & EDGE):
            yield f"line {node.lineno}: imports {', '.join(sorted(names))}"
        if not isinstance(node, ast.Call) or id(node) in printed:
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        if called == "astimezone" and not set(map(ast.unparse, node.args)) <= UTC:
            yield f"line {node.lineno}: {ast.unparse(node)}"
        if called in ("now", "fromtimestamp", "datetime", "replace", "combine"):
            given = {ast.unparse(k.value) for k in node.keywords if k.arg in ("tz", "tzinfo")}
            if not given <= {*UTC, "None"}:
                yield f"line {node.lineno}: {ast.unparse(node)}"


def _printed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a text, and of what `format_brief` and `build_marking` make texts of."""
    if isinstance(node, ast.JoinedStr):
        yield from ast.walk(node)
    if isinstance(node, ast.FunctionDef) and node.name == "build_marking":
        yield from ast.walk(node)
    if isinstance(node, ast.FunctionDef) and node.name.endswith("_clock"):
        yield from ast.walk(node)


def modules(*rooms: str) -> list[str]:
    found = (path for room in rooms for path in (PACKAGE / room).rglob("*.py"))
    return sorted(f"{path.relative_to(PACKAGE)}" for path in found)


@pytest.mark.parametrize("module", sorted(set(modules(*BELOW)) - CALENDAR))
def test_nothing_below_the_edge_counts_with_the_clock_of_a_zone(module):
    tree = ast.parse((PACKAGE / module).read_text())
    problems = [text for text in zoned(tree) if "migrations" not in module]
    assert problems == []


def test_what_would_count_with_a_zone_is_found():
    wrong = (
        "from logdriven_dagster.model.windows import convert_to_zone\n"
        "start = instant.astimezone(zone)\nnow = datetime.now(tz=zone)\n"
        "then = clock.replace(tzinfo=zone)\nright = instant.astimezone(timezone.utc)\n"
        "text = f'{instant.astimezone(zone):%H}'\n"
    )
    assert len(list(zoned(ast.parse(wrong)))) == 4


@pytest.mark.usefixtures("slow")
def test_every_window_that_the_package_makes_names_the_zone_that_prints_it():
    edge = {"cli/commands/run.py", "testing/sandbox.py", "plugins/importers/taking_over.py"}
    for module in modules("."):
        for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
            made = isinstance(node, ast.Call) and ast.unparse(node.func) == "TimeWindow"
            if made and "zone" not in {keyword.arg for keyword in node.keywords}:
                assert module in edge, f"{module}:{node.lineno}: {ast.unparse(node)}"
