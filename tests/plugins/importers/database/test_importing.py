"""Table files from a database's schema."""

from collections.abc import Callable
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from tests.plugins.importers.conftest import Folder

Command = Callable[..., Any]

EVENTS = "CREATE TABLE events (id INTEGER PRIMARY KEY, what VARCHAR(20))"
CUSTOMERS = """
    CREATE TABLE customers (
        id INTEGER PRIMARY KEY, name VARCHAR(20), updated_at TIMESTAMP NOT NULL)
"""


def scaffolded(folder: Folder, command: Command, *statements: str) -> dict[str, Any]:
    """The one table that the statements create, as its file says."""
    folder.execute(*statements)
    result = command("scaffold", "--connection", "shop")
    assert result.code == 0, result.out + result.err
    (path,) = folder.files()
    return folder.values(path)


def test_a_key_that_grows_makes_windows_of_keys(folder: Folder, command: Command):
    values = scaffolded(folder, command, EVENTS)
    assert (values["table"], values["incremental_type"]) == ("ods.events", "auto_inc_id")
    assert values["steps"][0]["source"]["key_column"] == "id"


def test_a_time_of_change_makes_windows_of_time_and_the_key_an_upsert(
    folder: Folder, command: Command
):
    insert = "INSERT INTO customers VALUES (1, 'Ada', '2022-01-03 04:05:06')"
    values = scaffolded(folder, command, CUSTOMERS, insert)
    assert (values["incremental_type"], values["default_start"]) == ("time_window", "2022-01-03")
    step = values["steps"][0]
    assert step["source"]["window_column"] == "updated_at"
    assert step["target"] == {"type": "iceberg", "mode": "upsert", "key": ["id"]}
    assert "would miss changes" in folder.text("tables/ods/customers.yaml").replace("\n# ", " ")


@pytest.mark.parametrize(
    ("columns", "kind", "column"),
    [
        ("id INTEGER PRIMARY KEY, created_at TIMESTAMP", "auto_inc_id", "id"),
        ("code VARCHAR(9) PRIMARY KEY, created_at TIMESTAMP", "time_window", "created_at"),
        ("code VARCHAR(9), last_update_time TIMESTAMP", "time_window", "last_update_time"),
        ("code VARCHAR(9), lastModified TIMESTAMP", "time_window", "lastModified"),
        ("code VARCHAR(9), t_update_time TIMESTAMP", "time_window", "t_update_time"),
        ("code VARCHAR(9), password_changed_at TIMESTAMP", "full", None),
        ("code VARCHAR(9), updated_at VARCHAR(9)", "full", None),
        ("a INTEGER, b INTEGER, PRIMARY KEY (a, b)", "full", None),
        ("code VARCHAR(9) PRIMARY KEY", "full", None),
    ],
)
def test_the_kind_of_a_table_follows_from_its_columns(
    folder: Folder, command: Command, columns: str, kind: str, column: str | None
):
    values = scaffolded(folder, command, f"CREATE TABLE t ({columns})")
    source = values["steps"][0]["source"]
    assert values["incremental_type"] == kind
    assert source.get("key_column", source.get("window_column")) == column
    if kind == "full":
        assert values["steps"][0]["target"]["mode"] == "overwrite"


def test_a_key_that_belongs_to_another_table_does_not_grow(folder: Folder, command: Command):
    folder.execute(EVENTS)
    folder.execute("CREATE TABLE details (id INTEGER PRIMARY KEY REFERENCES events (id))")
    command("scaffold", "--connection", "shop", "--tables", "details")
    assert folder.values("tables/ods/details.yaml")["incremental_type"] == "full"
    assert "id → events" in folder.values("tables/ods/details.yaml")["description"]


def test_what_is_only_declared_to_be_a_time_is_text(folder: Folder, command: Command):
    values = scaffolded(
        folder,
        command,
        "CREATE TABLE t (code TEXT, updated_at DATETIME)",
        "INSERT INTO t VALUES ('a', 1640995200)",
    )
    assert values["incremental_type"] == "full"


def test_invalid_names_are_mapped_and_reported(folder: Folder, command: Command):
    folder.execute('CREATE TABLE "order items" (id INTEGER PRIMARY KEY)')
    folder.execute(
        'CREATE TABLE "order-items" (id INTEGER PRIMARY KEY)', 'CREATE TABLE "1st" (a INT)'
    )
    result = command("scaffold", "--connection", "shop", "--json")
    assert folder.tables == ["ods.order_items", "ods.order_items_2", "ods.t_1st"]
    assert {"place": "1st", "item": "its name", "reason": "the table is called ods.t_1st"} in (
        result.json["notes"]
    )
    source = folder.values("tables/ods/order_items.yaml")["steps"][0]["source"]
    assert source["query"] == 'SELECT * FROM "order items"'


def test_views_come_when_asked_for(folder: Folder, command: Command):
    folder.execute(EVENTS, "CREATE VIEW recent AS SELECT * FROM events")
    command("scaffold", "--connection", "shop")
    assert folder.tables == ["ods.events"]
    assert command("scaffold", "--connection", "shop", "--views").code == 0
    assert folder.tables == ["ods.events", "ods.recent"]


def test_a_second_run_changes_nothing_and_reports_it(folder: Folder, command: Command):
    folder.execute(EVENTS, CUSTOMERS, "CREATE TABLE codes (code TEXT)")
    first = command("scaffold", "--connection", "shop", "--json").json
    assert len(first["written"]) == 3
    folder.execute("INSERT INTO customers VALUES (1, 'Ada', '2022-01-03 04:05:06')")
    again = command("scaffold", "--connection", "shop", "--json", "--now", "2022-03-01")
    assert (again.json["written"], again.json["unchanged"]) == ([], first["written"])


def test_files_that_differ_are_kept_by_default(folder: Folder, command: Command):
    folder.execute(EVENTS)
    command("scaffold", "--connection", "shop")
    before = folder.text("tables/ods/events.yaml").replace("load", "mine")
    folder.write("tables/ods/events.yaml", before)
    folder.execute(CUSTOMERS)
    result = command("scaffold", "--connection", "shop")
    assert (result.code, "tables/ods/events.yaml" in result.err) == (2, True)
    assert folder.files() == ["tables/ods/events.yaml"]
    assert folder.text("tables/ods/events.yaml") == before
    assert command("scaffold", "--connection", "shop", "--overwrite").code == 0
    assert folder.tables == ["ods.customers", "ods.events"]
    assert "mine" not in folder.text("tables/ods/events.yaml")


def test_a_dry_run_writes_nothing(folder: Folder, command: Command):
    folder.execute(EVENTS)
    result = command("scaffold", "--connection", "shop", "--dry-run")
    assert "would be written  tables/ods/events.yaml" in result.out
    assert folder.files() == []


def test_a_table_that_another_file_defines_is_listed(folder: Folder, command: Command):
    folder.execute(EVENTS)
    folder.write(
        "tables/mine.yaml",
        """
        table: ods.Events
        period: 1 day
        default_start: 2022-01-01
        steps: [{step: load, sql: SELECT 1 AS one, target: {type: parquet}}]
        """,
    )
    result = command("scaffold", "--connection", "shop", "--json")
    assert result.code == 1
    assert "defined already in tables/mine.yaml" in result.json["untranslated"][0]["reason"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--connection", "shp"), "did you mean 'shop'?"),
        (("--connection", "shop", "--tables", "nothing"), "unknown table nothing"),
        (("--connection", "shop", "--schema", "nowhere"), "unknown schema 'nowhere'"),
        (("--connection", "shop", "--period", "often"), "often"),
        (("--connection", "shop", "--default-start", "then"), "then"),
    ],
)
def test_a_missing_table_or_schema_is_reported(
    folder: Folder, command: Command, options: Any, problem: str
):
    folder.execute(EVENTS)
    result = command("scaffold", *options)
    assert (result.code, problem in result.err.replace("\n", " ")) == (2, True)
    assert folder.files() == []


@pytest.mark.usefixtures("slow")
def test_many_tables_of_a_kind_are_one_file(folder: Folder, command: Command):
    folder.execute(*(f"CREATE TABLE e{n} (id INTEGER PRIMARY KEY, v TEXT)" for n in range(50)))
    folder.execute("CREATE TABLE codes (code TEXT)", "CREATE TABLE words (word TEXT)")
    folder.execute('CREATE TABLE "odd one" (id INTEGER PRIMARY KEY, at DATETIME)')
    hinted = command("scaffold", "--connection", "shop", "--dry-run")
    assert "use --template to write one file per kind" in hinted.out
    assert command("scaffold", "--connection", "shop", "--template").code == 0
    assert folder.files() == ["tables/ods/shop_auto_inc_id.yaml", "tables/ods/shop_full.yaml"]
    made = load_project(folder.root).tables
    assert len(made) == 53
    for path in folder.files():
        (folder.root / path).unlink()
    assert command("scaffold", "--connection", "shop").code == 0
    assert dict(load_project(folder.root).tables) == dict(made)
    again = command("scaffold", "--connection", "shop", "--template", "--json")
    assert len(again.json["untranslated"]) == 53


def test_the_password_shows_nowhere(folder: Folder, command: Command, monkeypatch: Any):
    monkeypatch.setenv("SHOP_PASSWORD", "correct-horse")
    url = "postgresql://u:${env:SHOP_PASSWORD}@127.0.0.1:1/x"
    folder.configure(connections={"shop": {"url": url}})
    result = command("scaffold", "--connection", "shop")
    assert (result.code, "does not answer" in result.err) == (2, True)
    assert "correct-horse" not in result.out + result.err


KINDS = {
    "sqlite": ("INTEGER PRIMARY KEY", "DATETIME", "BIGINT", "JSON"),
    "postgresql": (
        "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "TIMESTAMPTZ",
        "BIGINT",
        "TIME",
    ),
    "mysql": ("BIGINT AUTO_INCREMENT PRIMARY KEY", "DATETIME(6)", "BIGINT", "YEAR"),
}
ODD = {"sqlite": '{"a": 1}', "postgresql": "12:34:56", "mysql": "2021"}


@pytest.mark.sampled
def test_what_is_written_runs_on_every_database(
    server_folder: Folder, command: Command, spark: Any
):
    folder = server_folder
    folder.spark = spark
    kind = folder.url.get_backend_name().replace("mariadb", "mysql")
    serial, instant, number, odd = KINDS[kind]
    quote = "`" if kind == "mysql" else '"'
    named = f"{quote}group{quote}"
    folder.execute(
        f"CREATE TABLE events (id {serial}, what VARCHAR(20), amount {number}, odd {odd})",
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(20), "
        f"updated_at {instant} NOT NULL)",
        f"CREATE TABLE {named} (code VARCHAR(9), since DATE)",
    )
    values = ", ".join(f"('e{n}', {3_000_000_000 + n}, '{ODD[kind]}')" for n in range(3))
    folder.execute(
        f"INSERT INTO events (what, amount, odd) VALUES {values}",
        "INSERT INTO customers VALUES (1, 'Ada', '2022-01-08 00:00:00'), "
        "(2, 'Carl', '2022-01-08 23:59:59.123456')",
        f"INSERT INTO {named} VALUES ('a', '2022-01-01')",
    )
    result = command("scaffold", "--connection", "shop")
    assert result.code == 0, result.out + result.err
    folder.run_all()
    odd_value = 2021 if kind == "mysql" else ODD[kind]
    assert folder.rows("ods.events") == [
        (n + 1, f"e{n}", 3_000_000_000 + n, odd_value) for n in range(3)
    ]
    assert [(row[0], row[1], str(row[2])) for row in folder.rows("ods.customers")] == [
        (1, "Ada", "2022-01-08 00:00:00"),
        (2, "Carl", "2022-01-08 23:59:59.123456"),
    ]
    assert [(code, str(day)) for code, day in folder.rows("ods.group")] == [("a", "2022-01-01")]

    folder.execute(
        "UPDATE customers SET name = 'Emmy', updated_at = '2022-01-10 01:00:00' WHERE id = 2"
    )
    folder.execute(f"INSERT INTO events (what, amount, odd) VALUES ('new', 1, '{ODD[kind]}')")
    folder.run_all(days=1)
    assert [row[1] for row in folder.rows("ods.events")] == ["e0", "e1", "e2", "new"]
    assert [row[1] for row in folder.rows("ods.customers")] == ["Ada", "Emmy"]


def test_comments_describe_a_table(postgres_folder: Folder, command: Command):
    postgres_folder.execute(
        "CREATE TABLE t (id SERIAL PRIMARY KEY, a INT)",
        "COMMENT ON TABLE t IS 'All of them, also ${each.x}'",
        "COMMENT ON COLUMN t.a IS 'the first: letter'",
        "CREATE TABLE p (at TIMESTAMP) PARTITION BY RANGE (at)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2022-01-01') TO ('2023-01-01')",
    )
    assert command("scaffold", "--connection", "shop").code == 0
    described = postgres_folder.values("tables/ods/t.yaml")["description"]
    assert described == "All of them, also $ {each.x}\na: the first: letter\n"
    assert postgres_folder.tables == ["ods.p", "ods.t"]


def test_what_spark_cannot_read_is_listed_and_left_out(
    postgres_folder: Folder, command: Command, spark: Any
):
    folder = postgres_folder
    folder.spark = spark
    folder.execute(
        "CREATE TABLE t (id SERIAL PRIMARY KEY, prices MONEY[], hours TIME[], wide NUMERIC(40, 2))",
        "INSERT INTO t VALUES (1, ARRAY[1.5::MONEY], ARRAY['12:00'::TIME], 12.34)",
    )
    result = command("scaffold", "--connection", "shop", "--json")
    assert result.code == 1
    assert [each["place"] for each in result.json["untranslated"]] == ["t.prices"]
    assert {each["place"] for each in result.json["notes"]} == {"t.hours", "t.wide"}
    folder.run_all()
    assert folder.rows("ods.t") == [(1, "{12:00:00}", "12.34")]
