"""Every package has its own sentence, and ARCHITECTURE.md a section for each top-level one."""

import ast
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "logdriven_dagster"
MOST = 16
"""As many modules and rooms a room may hold beside its `__init__`."""
ROOMS = sorted(
    path.parent
    for path in PACKAGE.glob("*/**/__init__.py")
    if not {"migrations", "examples"} & set(path.relative_to(PACKAGE).parts)
)


def name(room: Path) -> str:
    return ".".join(room.relative_to(PACKAGE).parts)


def sentence(room: Path) -> str:
    """The first line of what a room says of itself."""
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert said, f"{name(room)} says nothing of itself"
    return said.splitlines()[0]


@pytest.mark.parametrize("room", ROOMS, ids=name)
def test_a_package_states_its_content_in_a_sentence_of_its_own(room: Path):
    assert sentence(room).endswith(".")
    assert [name(other) for other in ROOMS if sentence(other) == sentence(room)] == [name(room)]


def test_the_architecture_describes_each_package_at_the_top_and_stays_short():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    headings = "\n".join(re.findall(r"^### .*", page, re.MULTILINE))
    top = [name(room) for room in ROOMS if "." not in name(room)]
    assert [each for each in top if f"`{each}`" not in headings] == []
    assert page.count("**Invariant:**") == page.count("**Boundary:**") == headings.count("###")
    assert len(page.encode()) <= 15_000


@pytest.mark.parametrize("room", ROOMS, ids=name)
def test_a_room_holds_no_more_than_one_can_look_over(room: Path):
    inside = [
        path
        for path in room.iterdir()
        if (path.suffix == ".py" and path.name != "__init__.py") or (path / "__init__.py").is_file()
    ]
    assert len(inside) <= MOST


_PARTS = "|".join(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file())
_NAMED = re.compile(rf"`((?:{_PARTS})(?:[./]\w+)+)`")
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def is_there(named: str) -> bool:
    """Whether a page names a module, a room, or something that stands in a module."""
    *place, last = re.split(r"[./]", named.removesuffix(".py"))
    folder = PACKAGE.joinpath(*place)
    if (folder / last).is_dir() or (folder / f"{last}.py").is_file():
        return True
    module = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return module.is_file() and re.search(rf"\b{last}\b", module.read_text()) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_that_a_page_names_is_there(page: Path):
    assert [named for named in _NAMED.findall(page.read_text()) if not is_there(named)] == []


def test_no_module_of_tests_imports_from_another_one():
    importing = re.compile(r"^\s*(?:from|import) tests(?:\.\w+)*\.test_\w+", re.MULTILINE)
    found = [path for path in (ROOT / "tests").rglob("*.py") if importing.search(path.read_text())]
    assert found == []


PLUG_INS = sorted(path.parent.name for path in PACKAGE.glob("plugins/*/__init__.py"))


_GROUP = re.compile(r'^\[project\.entry-points\."(logdriven\.\w+)"\]\n((?:.+\n)+)', re.MULTILINE)
_POINT = re.compile(r'^([\w-]+) = "(.+)"', re.MULTILINE)


def registered() -> set[tuple[str, str, str]]:
    """Return group, name and value of each entry point of ours in pyproject.toml."""
    groups = _GROUP.findall((ROOT / "pyproject.toml").read_text())
    return {(group, *point) for group, lines in groups for point in _POINT.findall(lines)}


def test_the_environment_has_the_entry_points_of_pyproject():
    installed = {(p.group, p.name, p.value) for p in distribution("logdriven_dagster").entry_points}
    ours = {point for point in installed if point[0].startswith("logdriven.")}
    assert ours == registered(), "install the package again: make install"


@pytest.mark.parametrize("plug_in", PLUG_INS)
def test_a_plug_in_has_entry_points_tests_and_a_page(plug_in: str):
    place = f"logdriven_dagster.plugins.{plug_in}."
    assert any(value.startswith(place) for _, _, value in registered())
    assert list((ROOT / "tests/plugins" / plug_in).rglob("test_*.py"))
    assert (ROOT / f"docs/plugins/{plug_in}.md").is_file()
