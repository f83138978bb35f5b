"""A definition that was registered with former names of its fields is the same definition."""

import json

import pytest

from logdriven_dagster.execution.definitions.changes import diff
from logdriven_dagster.model.definitions import Kind, compute_digest


@pytest.fixture
def former(lite_shop):
    """A shop that an earlier release has registered with `fresh` instead of `freshness`."""
    lite_shop.write("logdriven.yaml", "{project: shop, defaults: {freshness: auto}}")
    lite_shop.edit("tables/orders.yaml", "retries: 1", "retries: 1\nfreshness: {within: 2 h}")
    lite_shop.apply()
    for kind in ("project", "table"):
        for row in lite_shop.rows(f"{kind}_definition"):
            content = row["content"].replace('"freshness":', '"fresh":')
            assert content != row["content"]
            digest = compute_digest(content)
            text = content.replace(":", "\\:")  # no parameters
            for name in (f"{kind}_definition", f"{kind}_definition_log"):
                lite_shop.sql(
                    f"UPDATE {name} SET content = '{text}', digest = '{digest}', "
                    f"file_digest = '{digest}'"
                )
    return lite_shop


def _contents(shop):
    return [json.loads(version.content)["values"] for version in shop.registry.versions(TABLE)]


TABLE = "ods.orders"


@pytest.mark.parametrize("name", ["fresh", "freshness"])
def test_a_renamed_field_makes_no_version_under_either_name(former, name):
    former.edit("tables/orders.yaml", "freshness:", f"{name}:")
    former.edit("logdriven.yaml", "freshness:", f"{name}:")
    before = former.rows("table_definition")
    assert former.apply() == []
    assert former.rows("table_definition") == before
    assert former.consulted().kept[Kind.TABLE] == frozenset()
    assert former.consulted().project.other_versions == {}
    assert diff(former.root, TABLE, 1, "file").differences == []


def test_a_change_of_a_definition_with_former_names_shows_only_that_change(former):
    former.edit("tables/orders.yaml", "1 day", "2 days")
    (change,) = former.consulted().changes
    assert [item.path for item in change.differences()] == ["period"]
    assert former.apply() == [(TABLE, "modify", 2)]
    assert ["fresh" in values for values in _contents(former)] == [True, False]
    assert [item.path for item in diff(former.root, TABLE, 1, 2).differences] == ["period"]


def test_a_version_with_former_names_is_in_force_after_a_rollback(former):
    former.edit("tables/orders.yaml", "within: 2 h", "within: 5 h")
    former.apply()
    assert former.rollback(TABLE, 1) == [(TABLE, "modify", 3)]
    in_force = former.consulted().project.table(TABLE)
    assert in_force.freshness.within.total_seconds() == 2 * 3600
    former.edit("tables/orders.yaml", "freshness: {within: 5 h", "fresh: {within: 2 h")
    assert former.apply() == []


def test_an_export_with_former_names_is_imported_as_the_same_definitions(former):
    exported = former.export(history=True)
    assert "fresh:" in exported
    former.edit("tables/orders.yaml", "1 day", "2 days")
    former.edit("tables/orders.yaml", "within: 2 h", "within: 5 h")
    former.apply()
    assert former.import_(exported) == [(TABLE, "modify", 3)]
    in_force = former.consulted().project.table(TABLE)
    assert (str(in_force.period), in_force.freshness.within.total_seconds()) == ("1 day", 7200)
    assert former.import_(exported) == []
