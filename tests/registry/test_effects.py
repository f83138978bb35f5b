"""Each version of a table knows the first version with the same effect, on every database."""

import pytest

from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.runlog.definitions.effects import read_effect_versions

pytestmark = pytest.mark.sampled("database_url")


def effects(shop, name: str = "ods.orders") -> dict[int, tuple[int, str | None]]:
    """Version → the first one with the same effect, and the change."""
    project = shop.consulted().project.name
    code = build_code(project, Kind.TABLE, name)
    run_log = shop.consulted().run_log
    found = run_log.ask(lambda conn: read_effect_versions(conn, [code]))[code]
    return {version: (of.effect_version, of.change) for version, of in found.items()}


def test_a_version_with_another_query_has_an_effect_of_its_own(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "SELECT 1 AS one", "SELECT 2 AS one")
    shop.apply()
    assert effects(shop) == {1: (1, None), 2: (2, "changed column one")}


@pytest.mark.sampled
def test_a_cosmetic_version_has_the_effect_of_the_one_before(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "SELECT 1 AS one", "select 1 one -- a day")
    shop.edit("tables/orders.yaml", "retries: 1", "retries: 2\ndescription: Orders.")
    shop.apply()
    assert effects(shop) == {1: (1, None), 2: (1, None)}
    assert shop.consulted().project.effect_version("ods.orders") == 1


@pytest.mark.sampled
def test_settings_of_operators_and_rollbacks_have_the_effect_of_an_earlier_version(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "SELECT 1 AS one", "SELECT 2 AS one")
    shop.apply()
    shop.set("ods.orders", priority="3")
    shop.rollback("ods.orders", 1)
    changed = "changed column one"
    assert effects(shop) == {1: (1, None), 2: (2, changed), 3: (2, None), 4: (1, changed)}
    assert shop.consulted().project.effect_version("ods.orders") == 1


@pytest.mark.sampled
def test_a_file_that_is_not_applied_yet_counts_as_if_it_was(shop):
    shop.apply()
    shop.edit("tables/orders.yaml", "SELECT 1 AS one", "SELECT 2 AS one")
    assert shop.consulted().project.effect_version("ods.orders") == 2
    assert list(effects(shop)) == [1]


@pytest.mark.sampled
def test_a_table_that_is_removed_and_added_again_keeps_its_effect(shop):
    shop.apply()
    text = (shop.root / "tables/orders.yaml").read_text()
    shop.delete("tables/orders.yaml")
    shop.apply()
    shop.write("tables/orders.yaml", text)
    shop.apply()
    assert effects(shop)[3] == (1, None)


@pytest.mark.sampled
def test_a_query_may_move_into_a_file(shop):
    shop.apply()
    shop.write("tables/orders.sql", "SELECT 1 AS one\n")
    shop.edit("tables/orders.yaml", "sql: SELECT 1 AS one", "sql_file: orders.sql")
    shop.apply()
    assert effects(shop)[2] == (1, None)
