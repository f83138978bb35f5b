"""`quality` shows what rules found last, for people and for machines."""

import pytest

PROJECT = "project: shop\ndefaults: {period: 1 day, default_start: 2022-01-01}\n"
TABLE = """
table: ods.orders
steps:
  - step: load
    sql: SELECT id, id AS amount FROM range(5)
    target: {type: parquet}
    quality: {id: [id], columns: {amount: [positive, {rule: in_range, max: 3, level: warn}]}}
"""


@pytest.fixture
def shop(tmp_path, logdriven):
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text(PROJECT)
    (tmp_path / "tables/orders.yaml").write_text(TABLE)
    return lambda *arguments: logdriven("-p", tmp_path, "--now", "2022-01-02", *arguments)


@pytest.mark.usefixtures("long", "spark")
def test_the_newest_results_are_shown(shop):
    assert "No rows of ods.orders have been checked yet." in shop("quality", "ods.orders").out
    assert shop("run").code == 0
    shown = shop("quality", "ods.orders").out
    assert "positive" in shown
    assert "in_range" in shown
    (attempt,) = shop("quality", "ods.orders", "--json").json
    assert attempt["statistics"]["load.good_percent"] == "80.0000"
    assert [(rule["rule"], rule["ids"]) for rule in attempt["rules"]] == [
        ("positive", [{"id": 0}]),
        ("in_range", [{"id": 4}]),
    ]


def test_an_unknown_rule_ends_every_command_before_anything_is_read(shop, tmp_path):
    path = tmp_path / "tables/orders.yaml"
    path.write_text(TABLE.replace("positive", "positiv"))
    ended = shop("run")
    assert ended.code == 2
    assert "unknown quality rule 'positiv'; did you mean 'positive'?" in " ".join(ended.err.split())
    assert not (tmp_path / ".logdriven").exists()
