"""What pages say of the code is there: messages, parameters, drivers, public names."""

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from logdriven_dagster.config.checking import oversights
from logdriven_dagster.engine.spark import settings

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PARAMETERS = {
    "Parameters of a step function": oversights._OF_A_STEP,
    "Parameters of a quality rule": oversights._OF_A_RULE,
    "Parameters of a maintenance step": oversights._OF_UPKEEP,
}
PUBLIC = re.findall(r"`(logdriven_dagster\.[\w.]+)`", (DOCS / "api.md").read_text())
_WORDS = 2
"""So many words in a row of a message, at least, stand in the code as they do on the page."""


def section(page: str, heading: str) -> str:
    return (DOCS / page).read_text().split(f"## {heading}\n")[1].split("\n## ")[0]


def messages() -> list[str]:
    """The messages of the first columns of the page's tables."""
    rows = re.findall(r"^\| (`[^|]*) \|", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row)]


@cache
def spoken() -> str:
    """The code, in which texts that go over several lines are one."""
    code = "\n".join(path.read_text() for path in (ROOT / "logdriven_dagster").rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", code).replace("`", "")


@pytest.mark.parametrize("message", messages())
def test_a_message_of_the_page_is_one_of_the_code(message: str):
    words = message.replace("`", "").split()
    runs = [" ".join(words[n : n + _WORDS]) for n in range(max(1, len(words) - _WORDS + 1))]
    assert any(run in spoken() for run in runs)


@pytest.mark.parametrize(("heading", "known"), PARAMETERS.items())
def test_the_page_names_each_parameter_of_python_functions(heading: str, known: frozenset[str]):
    text = section("python-transforms.md", heading)
    named = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert known <= named <= known | {"source"}


def test_the_page_names_each_driver_and_where_it_comes_from():
    page = (DOCS / "connections.md").read_text()
    for driver, package in settings._PACKAGES.items():
        assert driver in page
        assert package.removeprefix("Debian's ") in page


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_there(name: str):
    place, _, last = name.rpartition(".")
    assert hasattr(import_module(place), last) or find_spec(name)
