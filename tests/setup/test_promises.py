"""docs/evidence/promises.md names a test for each promise; every one of them exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_NAMED = re.compile(r"((?:tests|logdriven_dagster/testing)/[\w/]+\.py)::(\w+)")


def promises() -> list[str]:
    text = (ROOT / "docs/evidence/promises.md").read_text()
    return [line for line in text.splitlines() if line.startswith("- ")]


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("promise", [pytest.param(p, id=p[2:60]) for p in promises()])
def test_every_promise_has_its_test(promise):
    named = _NAMED.findall(promise)
    assert named, "a promise is one line with its tests: `tests/folder/file.py::test_name`"
    for file, name in named:
        assert name in names_in(file), f"{file} has no {name}"
