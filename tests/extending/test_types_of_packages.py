"""A source and a target of an installed package, as in docs/custom-sources-and-targets.md."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.extending.packages import logdriven

PAGE = Path(__file__).resolve().parents[2] / "docs" / "custom-sources-and-targets.md"


def blocks(language: str) -> list[str]:
    """The examples of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def entry_points() -> str:
    """What installing the package writes of its `pyproject.toml`."""
    (toml,) = blocks("toml")
    ini = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", toml)
    return ini.replace('"', "")


@dataclass
class Shop:
    """A project with one table, and packages installed in a folder of their own."""

    root: Path
    site: Path

    def install(self, entries: str) -> None:
        info = self.site / "toys-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entries)
        for text in blocks("python"):
            file = self.site / text.partition("\n")[0].removeprefix("# ")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

    def table(self, change: str = "", to: str = "") -> None:
        (text,) = blocks("text")
        assert change in text
        (self.root / "tables").mkdir(exist_ok=True)
        (self.root / "tables/t.yaml").write_text(text.replace(change, to) if change else text)

    def logdriven(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return logdriven(self.root, self.site, *arguments)

    def mistake(self) -> str:
        """The only mistake, without its file."""
        ended = self.logdriven("validate")
        assert ended.returncode == 2, ended.stdout + ended.stderr
        return ended.stderr.partition("tables/t.yaml:")[2].strip()

    def rows(self, day: int) -> list[int]:
        held: dict[str, Any] = json.loads(
            (self.root / f"shelf/202201{day:02}000000.json").read_text()
        )
        return [row["n"] for row in held["rows"]]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path / "shop", tmp_path / "site")
    shop.root.mkdir()
    (shop.root / "logdriven.yaml").write_text("project: shop\nspark: {master: 'local[2]'}\n")
    shop.install(entry_points())
    shop.table()
    return shop


@pytest.mark.usefixtures("long")
def test_a_table_with_both_is_valid_runs_and_is_cleaned(spark_processes: Any, shop: Shop):
    assert shop.logdriven("validate").returncode == 0
    ran = shop.logdriven("run", "--now", "2022-01-03")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [shop.rows(day) for day in (1, 2)] == [[0, 1, 2]] * 2
    log = json.loads(shop.logdriven("log", "--json").stdout)
    ended = [(row["status"], row["steps"][0]["target_count"]) for row in log]
    assert ended == [("SUCCESS", 3)] * 2
    cleaned = json.loads(shop.logdriven("clean", "--older-than", "0", "--json").stdout)
    assert [(item["table"], item["kind"]) for item in cleaned["garbage"]] == [
        ("ods.numbers", "rows")
    ] * 2
    assert shop.rows(1) == [0, 1, 2]


@pytest.mark.usefixtures("long")
def test_a_mistake_in_its_fields_is_reported_as_one_in_ours(shop: Shop):
    shop.table("below: 3", "below: -3")
    assert shop.mistake().startswith("6: steps[0].source.below: must be at least 0, not -3")
    shop.table("folder: shelf", "folder: shelf, fold: 1")
    assert "steps[0].target.fold: unknown field; did you mean 'folder'?" in shop.mistake()


def test_the_schemas_that_editors_use_know_them(shop: Shop):
    assert shop.logdriven("schema", "--write").returncode == 0
    schema = (shop.root / ".logdriven/schema/table.json").read_text()
    assert {"NumbersSource", "ShelfTarget"} <= json.loads(schema)["$defs"].keys()


@pytest.mark.usefixtures("slow")
def test_two_tables_with_one_place_are_a_mistake(shop: Shop):
    (text,) = blocks("text")
    (shop.root / "tables/u.yaml").write_text(text.replace("ods.numbers", "ods.others"))
    assert "ods.numbers.count writes to the same target" in shop.logdriven("validate").stderr


@pytest.mark.usefixtures("slow")
def test_an_unknown_type_names_those_that_there_are_and_how_others_come(shop: Shop):
    shop.table("type: shelf", "type: rack")
    mistake = shop.mistake()
    assert mistake.startswith("7: steps[0].target: unknown type 'rack'; one of iceberg, parquet,")
    assert "shelf, or a type that a package registers as logdriven.targets" in mistake


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("rack = toys.nowhere:Rack", "No module named 'toys.nowhere'"),
        ("rack = toys.models:NumbersSource", "must be a concrete subclass of"),
        ("rack = toys.models:ShelfTarget", "a Literal of 'rack'"),
    ],
)
def test_an_unusable_type_is_reported_only_to_those_who_name_it(shop: Shop, entry: str, why: str):
    targets = "[logdriven.targets]\n"
    shop.install(entry_points().replace(targets, f"{targets}{entry}\n"))
    assert shop.logdriven("validate").returncode == 0
    shop.table("type: shelf", "type: rack")
    assert why in shop.mistake()


@pytest.mark.usefixtures("slow")
def test_a_package_cannot_take_the_name_of_another_type(shop: Shop):
    text = (shop.site / "toys/models.py").read_text()
    (shop.site / "toys/models.py").write_text(text.replace('["shelf"]', '["shelf", "iceberg"]'))
    assert "iceberg is already registered" in shop.mistake()
