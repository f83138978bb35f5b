"""docs/evidence/private-apis.md has a row for each private name of other packages that we use."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "logdriven_dagster"
PAGE = (ROOT / "docs/evidence/private-apis.md").read_text()
PUBLIC = frozenset({"_mapping", "_replace"})
"""Names of SQLAlchemy's rows and of named tuples that are documented although they look private."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    owner: str
    names: tuple[str, ...]
    one_suffices: bool
    """Whether they are what several versions call the same thing."""
    purpose: str
    module: str
    test: str


def rows() -> list[Row]:
    section = PAGE.partition("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:3] == "| `"]
    return [
        Row(
            *(of.strip("`"), tuple(re.findall(r"`(\w+)`", names)), " or " in names, purpose),
            *map(_plain, (at, test)),
        )
        for of, names, purpose, at, test in cells
    ]


def _plain(cell: str) -> str:
    return cell.strip("` ")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in PUBLIC


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def own_names(path: Path) -> frozenset[str]:
    """What a module defines itself."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, value=ast.Name(id="self" | "cls"), ctx=ast.Store())
            ):
                found.add(name)
    return frozenset(found)


def used(path: Path) -> Iterator[str]:
    """The private names of other packages that a module uses."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith("logd"):
                for name in names:
                    if any(map(is_private, f"{module}.{name.name}".split("."))):
                        yield name.name
            case ast.Import(names=names):
                yield from (n.name for n in names if any(map(is_private, n.name.split("."))))
            case ast.Attribute(attr=name) if is_private(name) and name not in own_names(path):
                yield name
            case ast.Call(func=ast.Name(id=caller), args=[_, ast.Constant(str(name)), *_]):
                if caller in ("getattr", "setattr", "hasattr") and is_private(name):
                    yield name


def ours() -> frozenset[str]:
    return frozenset().union(*map(own_names, PACKAGE.rglob("*.py")))


@pytest.mark.usefixtures("slow")
def test_every_use_of_a_private_name_has_its_row_and_no_row_is_without_use() -> None:
    listed = {(row.module, name) for row in rows() for name in row.names if is_private(name)}
    listed |= {(r.module, n) for r in rows() for n in r.names if "._" in r.owner}
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in used(path)
        # `_instance` is a launcher's; other classes of ours have one of their own.
        if name not in ours() or (path.relative_to(PACKAGE).as_posix(), name) in listed
    }
    # What overrides a private method defines its name.
    overridden = {(m, n) for m, n in listed if n in own_names(PACKAGE / m)}
    assert found | overridden == listed


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.owner}.{row.names[0]}")
def test_the_name_is_still_there(row: Row) -> None:
    owner = _found(row.owner)
    source = inspect.getsource(owner)
    gone = [n for n in row.names if not (hasattr(owner, n) or re.search(rf"\b{n}\b", source))]
    enough = len(gone) < len(row.names) if row.one_suffices else not gone
    assert enough, f"{row.owner}.{gone} is gone; {row.module} needs it: {row.purpose}"


def _found(name: str) -> Any:
    """A module, or the class that one holds."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(_found(module), attribute)


def test_every_row_names_a_test_that_exists_and_the_versions_are_those_that_are_pinned() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and ".py" in line]
    named = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)` \|$", line) for line in lines]
    assert len(lines) > len(rows())
    assert all(named)
    for [(file, name)] in named:
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), name
    pins = (ROOT / "constraints.txt").read_text()
    tried = re.sub(r"\s+", " ", PAGE.partition("\n| ")[0])
    for name, title in (("dagster", "Dagster"), ("pyspark", "PySpark"), ("pyiceberg", "PyIceberg")):
        versions = re.findall(rf"^{name}==([\d.]+)", pins, re.MULTILINE)
        assert f"{title} {' and '.join(versions)}" in tried
