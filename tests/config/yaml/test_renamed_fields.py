"""Former names of keys: files that have them are read, with a hint that names the place."""

import logging
from typing import Annotated

import pytest
from pydantic import Field

from logdriven_dagster.config.loading import read_sources
from logdriven_dagster.config.models.dependencies import AssetDependency, Dependency
from logdriven_dagster.config.models.frozen import Model
from logdriven_dagster.config.models.jobs import MaintenanceStep, Relation
from logdriven_dagster.config.scaffolding.schemas import build_file_schemas
from logdriven_dagster.config.yaml.field_names import Formerly, current_names
from logdriven_dagster.config.yaml.renamed_fields import rename_to_current, rename_to_former

TABLE = """
    table: ods.orders
    period: 1 day
    default_start: 2022-01-01
    freshness: auto
    steps:
      - step: load
        source: {type: parquet, path: orders, window_column: at}
        target: {type: iceberg}
        quality: {id: [id], deduplicate_order_by: at desc}
"""
KEYS = """
    table: ods.orders
    incremental_type: auto_inc_id
    period: 1 day
    on_key_reset: report
    steps:
      - step: load
        source: {type: parquet, path: orders, key_column: id}
        target: {type: iceberg}
"""
FILES = """
    table: ods.orders
    incremental_type: files
    period: 1 day
    steps:
      - step: load
        source:
          type: csv
          path: orders/*.csv
          columns: id INT
          detect_changes_by: hash
        target: {type: iceberg}
"""
RENAMED = [
    (TABLE, "fresh", "freshness"),
    (TABLE, "keep", "deduplicate_order_by"),
    (FILES, "version", "detect_changes_by"),
    (KEYS, "on_restart", "on_key_reset"),
]


def _hints(folder):
    return [str(h).replace(f"{folder.root}/", "") for h in folder.load().renamed_fields]


@pytest.mark.parametrize(("text", "former", "current"), RENAMED)
def test_a_former_name_means_the_current_one_with_a_hint(folder, caplog, text, former, current):
    assert f"{current}:" in text
    written = [
        folder.write("tables/t.yaml", text.replace(f"{current}:", f"{name}:")).load()
        for name in (current, former)
    ]
    assert written[0].tables == written[1].tables
    assert written[0].renamed_fields == ()
    (hint,) = _hints(folder)
    line = text[: text.index(f"{current}:")].count("\n")
    assert hint.startswith(f"tables/t.yaml:{line}: ")
    assert hint.endswith(f"{former}: was renamed; write {current}")
    assert [record.getMessage() for record in caplog.records] == [
        f"renamed_field: {folder.root}/{hint}"
    ]


def test_a_hint_is_logged_once_per_process(folder, caplog):
    folder.table("t", "fresh: auto")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            read_sources(folder.root)
    assert len(caplog.records) == 1


def test_both_names_at_once_are_refused_with_the_place(folder):
    folder.table("t", "fresh: auto\nfreshness: none")
    assert folder.mistakes() == (
        "tables/t.yaml:4: fresh: is the former name of freshness, which is also given; remove fresh"
    )


def test_a_mistake_below_a_former_name_has_the_line_of_the_file(folder):
    folder.table("t", "fresh:\n  within: 2 h\n  wern: 1 h")
    assert folder.mistakes() == (
        "tables/t.yaml:6: freshness.wern: unknown field; did you mean 'warn'?"
    )


def test_defaults_with_a_former_name_apply_to_tables_with_the_current_one(folder):
    folder.write("logdriven.yaml", "{project: p, defaults: {fresh: auto}}")
    folder.table("a").table("b", "freshness: none").table("c", "fresh: none")
    tables = folder.load().tables
    assert [bool(tables[name].freshness) for name in "abc"] == [True, False, False]
    assert len(_hints(folder)) == 2


def test_a_template_with_a_former_name_gives_one_hint(folder):
    folder.write(
        "tables/t.yaml",
        """
        for_each: [{name: a}, {name: b}, {name: c, override: {fresh: none}}]
        table: ods.${each.name}
        period: 1 day
        default_start: 2022-01-01
        fresh: {within: 5 h}
        steps: [{step: load, sql: SELECT 1 AS one, target: {type: iceberg}}]
        """,
    )
    tables = folder.load().tables
    assert [bool(tables[f"ods.{name}"].freshness) for name in "abc"] == [True, True, False]
    assert _hints(folder) == [
        "tables/t.yaml:5: fresh: was renamed (item 1, a, and 1 more); write freshness",
        "tables/t.yaml:1: fresh: was renamed (item 3, c); write freshness",
    ]


def test_an_unknown_name_suggests_only_current_names(folder):
    folder.table("t", "fresk: auto")
    assert "fresh'" not in folder.mistakes()


def test_editors_show_former_names_as_deprecated():
    schemas = build_file_schemas()
    shown = schemas["table"]["properties"]["fresh"]
    assert (shown["deprecated"], shown["description"]) == (True, "renamed to freshness")
    assert "deprecated" not in schemas["table"]["properties"]["freshness"]


class Cat(Model):
    type: str = "cat"
    mice: Annotated[int, Formerly("mouses")] = 0


class House(Model):
    cats: tuple[Cat, ...] = ()
    rooms: Annotated[dict[str, Cat | str], Formerly("chambers")] = Field({})
    options: dict[str, int] = Field({})


def test_names_are_replaced_in_lists_and_mappings_of_models_and_nowhere_else():
    current = {"cats": [{"mice": 1}], "rooms": {"a": {"mice": 2}, "b": "empty"}}
    former = {"cats": [{"mouses": 1}], "chambers": {"a": {"mouses": 2}, "b": "empty"}}
    options = {"options": {"mouses": 3}}
    assert rename_to_current(former | options, House) == current | options
    assert rename_to_former(current | options, House) == former | options
    assert rename_to_former({"cats": [{"type": "cat"}]}, House) is None


@pytest.mark.parametrize("model", [Dependency, AssetDependency, Relation, MaintenanceStep])
def test_definitions_that_are_derived_from_tables_and_jobs_have_no_renamed_fields(model):
    """The registry does not look for their former names."""
    assert current_names(model) == {}
