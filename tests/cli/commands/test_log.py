"""`logdriven log`, `logdriven db upgrade` and `logdriven schema`."""

import sqlite3

import yaml
from jsonschema import Draft202012Validator

from tests.builders import day
from tests.cli.shop_log import ShopLog


def test_log_json_holds_rows_under_their_column_names_each_with_its_steps(shop, logdriven):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.fail("ods.orders", day(2), "bad line 7")
    log.succeed("ods.customers", day(3))
    rows = logdriven("log", "ods.orders", "--json").json
    columns = _columns(shop, "job_log") | {"steps"}
    assert [set(row) for row in rows] == [columns, columns]
    newest = rows[0]
    assert (newest["job_schedule_id"], newest["status"]) == (
        "ods.orders-20220102000000",
        "FAILURE",
    )
    assert newest["runtime_args"] == {"a": "1"}
    (step,) = newest["steps"]
    assert set(step) == _columns(shop, "step_log")
    assert (step["step_id"], step["status"], step["error"]) == ("load", "FAILURE", "bad line 7")


def test_log_shows_attempts_with_their_steps_newest_first(shop, logdriven):
    log = ShopLog(shop)
    log.succeed("ods.orders", day(1))
    log.fail("ods.orders", day(2), "bad [line] 7\nand more")
    lines = logdriven("log").out.splitlines()
    attempts = [line.split() for line in lines if "ods.orders" in line]
    steps = [line for line in lines if "  load" in line]
    assert [cells[:6] for cells in attempts] == [
        ["2", "ods.orders", "2022-01-02", "–", "2022-01-03", "FAILURE"],
        ["1", "ods.orders", "2022-01-01", "–", "2022-01-02", "SUCCESS"],
    ]
    assert "bad [line] 7" in steps[0]
    assert "and more" not in steps[0]
    assert steps[1].split()[-2:] == ["24", "24"]


def test_full_shows_whole_errors(shop, logdriven):
    ShopLog(shop).fail("ods.orders", day(2), "unknown column b\n\nAnalysisException: [X] b")
    assert "AnalysisException" not in logdriven("log").out
    assert logdriven("log", "ods.orders", "--full").out.splitlines()[-5:] == [
        "job 1, ods.orders 2022-01-02 – 2022-01-03, step load:",
        "  unknown column b",
        "",
        "  AnalysisException: [X] b",
        "",
    ]


def test_a_window_shows_the_attempts_at_it(shop, logdriven):
    log = ShopLog(shop)
    log.fail("ods.orders", day(1), "bad line 7")
    log.succeed("ods.orders", day(1))
    log.succeed("ods.orders", day(2))
    rows = logdriven("log", "ods.orders", "--window", "2022-01-01", "--json").json
    assert [(row["job_id"], row["status"]) for row in rows] == [(2, "SUCCESS"), (1, "FAILURE")]
    assert "give the table" in logdriven("log", "--window", "2022-01-01").err


def test_limit_shows_the_latest_attempts(shop, logdriven):
    log = ShopLog(shop)
    for n in (1, 2, 3):
        log.succeed("ods.orders", day(n))
    assert [row["job_id"] for row in logdriven("log", "--limit", 2, "--json").json] == [3, 2]


def test_an_empty_log_is_reported_as_such(shop, logdriven):
    assert logdriven("log").out == "No attempts yet.\n"
    assert logdriven("log", "--json").json == []


def test_a_secret_in_an_old_row_is_not_shown(shop, logdriven):
    ShopLog(shop).fail("ods.orders", day(1), 'connect to jdbc:x://me:sesame@host?password="sesame"')
    for arguments in ((), ("--json",)):
        assert "sesame@" not in logdriven("log", *arguments).out


def test_db_upgrade_makes_the_tables(shop, logdriven):
    result = logdriven("db", "upgrade")
    assert result.code == 0
    assert result.out.startswith("The run log is up to date: sqlite:///")
    assert {"job_id", "status"} <= _columns(shop, "job_log")


def test_schema_prints_one_kind_or_all(shop, logdriven):
    assert set(logdriven("schema").json) == {"project", "table", "job"}
    table = logdriven("schema", "table").json
    assert table["required"] == ["table", "steps"]
    assert table["additionalProperties"] is False


def test_the_schemas_know_templates_and_references(shop, logdriven):
    table = """
    for_each: [{name: a, retries: 1}]
    table: ods.${each.name}
    retries: ${each.retries}
    ordered: ${run.ordered}
    depends_on: ["${each.name}"]
    steps: [{step: load, sql: SELECT 1 AS one, target: {type: iceberg, mode: "${run.mode}"}}]
    """
    job = "{for_each: [a, b], job: 'load_${each}', tables: ['ods.${each}']}"
    for kind, text in (("table", table), ("job", job)):
        validator = Draft202012Validator(logdriven("schema", kind).json)
        assert [e.message for e in validator.iter_errors(yaml.safe_load(text))] == []
    wrong = yaml.safe_load(table.replace("${each.retries}", "many"))
    validator = Draft202012Validator(logdriven("schema", "table").json)
    assert len(list(validator.iter_errors(wrong))) == 1


def test_schema_write_explains_how_an_editor_finds_it(shop, logdriven):
    (shop / ".logdriven/schema/table.json").unlink()
    result = logdriven("schema", "--write")
    assert (shop / ".logdriven/schema/table.json").is_file()
    assert "# yaml-language-server: $schema=../../.logdriven/schema/table.json" in result.out


def test_schemas_are_written_into_projects_only(tmp_path, logdriven):
    assert logdriven("schema", "--write", "-p", tmp_path).code == 2
    assert list(tmp_path.iterdir()) == []


def _columns(shop, table: str) -> set[str]:
    client = sqlite3.connect(shop / ".logdriven/run_log.db")
    try:
        return {row[1] for row in client.execute(f"PRAGMA table_info({table})")}
    finally:
        client.close()
