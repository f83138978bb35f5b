"""Documentation that goes wrong by itself: links, commands, options and examples in YAML."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from logdriven_dagster.cli.app import app
from logdriven_dagster.config import load_project
from logdriven_dagster.config.yaml.bounds import read_yaml
from logdriven_dagster.config.yaml.loader import Loader
from logdriven_dagster.errors import ConfigError, InvalidProjectError
from logdriven_dagster.plugins.table_tests.models import TableTest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
OF_A_TABLE = "table: a\nperiod: 1 day\ndefault_start: 2022-01-01\n"
AROUND = {"source": f"{OF_A_TABLE}steps:\n- step: load\n  target: {{type: iceberg}}\n  "}
AROUND |= {"target": f"{OF_A_TABLE}steps:\n- step: load\n  sql: SELECT 1\n  ", "steps": OF_A_TABLE}
"""The first field of a part of a table's file → what stands before it."""
ELSEWHERE = re.compile(
    r"unknown (table|connection|recipient|layer)|no such file|no step has a target|missing"
    "|needs a first window"
)
"""Mistakes that an example has because other files are not shown."""
OF_OTHERS = frozenset({"telemetry", "notify", "scrape_configs", "python_logs", "type"})
"""First fields of examples that are no files of a project."""


def commands() -> dict[str, set[str]]:
    """Every command, with its group before it, → its options."""
    found: dict[str, set[str]] = {}

    def walk(command: Any, path: str) -> None:
        found[path] = {name for p in command.params for name in [*p.opts, *p.secondary_opts]}
        context = typer.Context(command)
        for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
            walk(command.get_command(context, name), f"{path} {name}".strip())

    walk(typer.main.get_command(app), "")
    return found


def examples() -> list[Any]:
    """Each example in YAML with the name of its page."""
    return [
        pytest.param(text, id=f"{page.name}-{n}")
        for page in PAGES
        for n, text in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL))
        if next(iter(yaml.safe_load(text))) not in OF_OTHERS
    ]


def mistakes(folder: Path) -> Sequence[ConfigError]:
    try:
        load_project(folder)
    except InvalidProjectError as error:
        return error.errors
    return ()


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub and MkDocs agree on it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"\s", "-", heading) for heading in plain if "  " not in heading}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if not target.startswith("http"):
            there = page.parent / target if target else page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_every_page_has_its_place_in_the_site() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = re.findall(r"[\w/-]+\.md", str(site["nav"]))
    records = DOCS / "decisions"
    indexed = re.findall(r"\]\(([\w-]+\.md)\)", (records / "index.md").read_text())
    listed += [f"decisions/{name}" for name in indexed]
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_the_site_holds_what_its_pages_link_to(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or DOCS in (page.parent / target).resolve().parents


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    known = commands()
    shown = re.findall(r"(?:`|\$ )logdriven ([^`\n#&|]+)", page.read_text())
    for line in shown:
        words = re.findall(r"[a-z][a-z-]+", re.split(r"[^a-z -]| -", line)[0])
        name = next((n for n in (" ".join(words[:2]), *words[:1]) if n in known), None)
        assert name is not None or not words, f"logdriven {line}"
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", line))
        assert options <= known[name or ""] | known[""], f"logdriven {line}"


def refuse_invalid_test(values: dict[str, Any]) -> None:
    """Raise ValidationError for an example that is not a test of a table, or a part of one."""
    for each in values.get("tests", [values]):
        whole = {"test": "a rule", "table": "ods.orders", "expect": {"rows": []}}
        TableTest.model_validate({**whole, **each})


@pytest.mark.parametrize("text", examples())
def test_every_example_of_a_file_is_valid(tmp_path: Path, text: str) -> None:
    _, values = read_yaml(text, Loader)
    first = next(iter(values))
    if {"test", "tests", "given"} & values.keys():
        refuse_invalid_test(values)
        return
    files = {"logdriven.yaml": "project: shop\n"}
    if first in AROUND:
        indented = text.replace("\n", "\n  ") if first != "steps" else text
        files["tables/a.yaml"] = AROUND[first] + indented.strip()
    elif first in ("table", "job", "for_each"):
        files["jobs/a.yaml" if first == "job" else "tables/a.yaml"] = text
    else:
        files["logdriven.yaml"] = text if first == "project" else f"project: shop\n{text}"
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert [str(each) for each in mistakes(tmp_path) if not ELSEWHERE.search(str(each))] == []
