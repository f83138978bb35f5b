"""Tables from a dbt project's manifest."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from logdriven_dagster.config import load_project
from tests.plugins.importers.conftest import Folder

Import = Callable[..., Any]
BATCHES = {
    "materialized": "incremental",
    "incremental_strategy": "microbatch",
    "event_time": "ordered_at",
    "batch_size": "day",
    "begin": "2022-01-03",
}


class Dbt:
    """A manifest that is written by hand."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self.adapter, self.version = folder, "spark", "v12"
        self.nodes: dict[str, Any] = {}
        self.sources: dict[str, Any] = {}
        self.others: dict[str, Any] = {}

    def source(self, name: str = "orders", **values: Any) -> str:
        found = f"source.shop.raw.{name}"
        self.sources[found] = {
            "resource_type": "source",
            "source_name": "raw",
            "name": name,
            "schema": "landing",
            "identifier": f"t_{name}",
            "original_file_path": "models/sources.yml",
            **values,
        }
        return found

    def model(self, called: str, code: str, *upstream: str, **values: Any) -> str:
        """Add a model; its settings are in `config`, the others are values of the node."""
        config = {"materialized": "table", **values.pop("config", {})}
        found = f"model.shop.{called}"
        self.nodes[found] = {
            "resource_type": "model",
            "name": called,
            "package_name": "shop",
            "original_file_path": f"models/{called}.sql",
            "language": "sql",
            "raw_code": code,
            "depends_on": {"nodes": list(upstream)},
            "config": config,
            **values,
        }
        return found

    def test(self, kind: str, of: str, column: str | None, *upstream: str, **kwargs: Any) -> None:
        name = f"{kind}_{len(self.nodes)}"
        config, where = kwargs.pop("config", {}), kwargs.pop("namespace", None)
        self.nodes[f"test.shop.{name}"] = {
            "resource_type": "test",
            "name": name,
            "original_file_path": "models/schema.yml",
            "attached_node": of,
            "column_name": column,
            "test_metadata": {
                "name": kind,
                "namespace": where,
                "kwargs": {"column_name": column, "model": "{{ get_where_subquery() }}", **kwargs},
            },
            "depends_on": {"nodes": [*upstream, of]},
            "config": {"severity": "ERROR", **config},
        }

    def write(self) -> None:
        schema = f"https://schemas.getdbt.com/dbt/manifest/{self.version}.json"
        content = {
            "metadata": {"dbt_schema_version": schema, "adapter_type": self.adapter},
            "nodes": self.nodes,
            "sources": self.sources,
            **self.others,
        }
        self.folder.write("theirs/target/manifest.json", json.dumps(content))


@pytest.fixture
def dbt(folder: Folder) -> Dbt:
    folder.configure(timezone="UTC")
    return Dbt(folder)


@pytest.fixture
def brought(dbt: Dbt, command: Callable[..., Any]) -> Import:
    """Import the manifest; the exit code tells whether something is listed."""

    def run(*options: object, code: int = 0) -> Any:
        dbt.write()
        result = command("import-dbt", dbt.folder.root / "theirs", "--json", *options)
        assert result.code == code, result.out + result.err
        return result.json if code < 2 else result.err

    return run


def table(dbt: Dbt, name: str) -> dict[str, Any]:
    return dbt.folder.values(f"tables/dbt/{name}.yaml")


def step(dbt: Dbt, name: str, n: int = -1) -> dict[str, Any]:
    found: dict[str, Any] = table(dbt, name)["steps"][n]
    return found


def listed(report: Any) -> list[tuple[str, str]]:
    return [(each["place"], each["item"]) for each in report["untranslated"]]


def reasons(report: Any, key: str = "untranslated") -> str:
    return "\n".join(each["reason"] for each in report[key])


def test_a_table_model_is_a_snapshot_that_waits_for_its_upstreams(dbt: Dbt, brought: Import):
    code = "{{ config(materialized='table') }}\nselect id from {{ source('raw', 'orders') }}"
    first = dbt.model("stg_orders", code, dbt.source())
    dbt.model("orders", 'select * from {{ ref("stg_orders") }}', first)
    brought()
    values = table(dbt, "orders")
    assert (values["incremental_type"], values["period"]) == ("full", "1 day")
    assert values["depends_on"] == [{"table": "dbt.stg_orders", "window": "newest"}]
    assert step(dbt, "orders") == {
        "step": "load",
        "sql": "select * from dbt.stg_orders",
        "target": {"type": "iceberg", "mode": "overwrite"},
    }
    assert step(dbt, "stg_orders")["sql"] == "select id from dbt.raw.orders"
    assert step(dbt, "raw/orders")["source"] == {"type": "table", "name": "landing.t_orders"}


def test_the_same_import_again_changes_nothing(dbt: Dbt, brought: Import):
    dbt.model("orders", "select 1 as id")
    assert brought()["written"] == ["tables/dbt/orders.yaml"]
    assert brought()["written"] == []


def test_a_source_of_a_database_is_read_by_its_mapped_connection(dbt: Dbt, brought: Import):
    dbt.adapter = "postgres"
    dbt.model("orders", "select id from {{ source('raw', 'orders') }}", dbt.source())
    brought("--map", "raw=shop")
    source = {"type": "jdbc", "connection": "shop", "table": "landing.t_orders"}
    assert step(dbt, "raw/orders")["source"] == source


@pytest.mark.parametrize(
    "given",
    [
        {"meta": {"external_location": "s3://lake/{name}/*.parquet"}},
        {"config": {"external_location": "lake/orders.parquet"}},
        {"config": {"meta": {"plugin": "excel"}}},
    ],
)
def test_a_source_that_duckdb_reads_from_files_is_not_a_table_of_a_connection(
    dbt: Dbt, brought: Import, given: dict[str, Any]
):
    dbt.adapter = "duckdb"
    dbt.model("orders", "select id from {{ source('raw', 'orders') }}", dbt.source(**given))
    report = brought("--map", "raw=shop", code=1)
    assert "and not from a table" in reasons(report)
    assert table(dbt, "raw/orders")["release_state"] == "offline"


def test_a_source_of_a_warehouse_without_a_connection_fails(dbt: Dbt, brought: Import):
    dbt.adapter = "postgres"
    dbt.model("orders", "select id from {{ source('raw', 'orders') }}", dbt.source())
    report = brought(code=1)
    assert listed(report) == [("models/sources.yml", "source.shop.raw.orders")]
    assert "--map raw=CONNECTION" in reasons(report)
    assert table(dbt, "raw/orders")["release_state"] == "offline"
    assert "raise_error" in step(dbt, "raw/orders")["sql"]


def test_a_view_is_a_snapshot_and_listed_for_review(dbt: Dbt, brought: Import):
    dbt.model("orders", "select 1 as id", config={"materialized": "view"})
    assert "a view shows the current rows" in reasons(brought(), "notes")
    assert step(dbt, "orders")["target"]["mode"] == "overwrite"


def test_an_ephemeral_model_is_a_step_of_each_table_that_reads_it(dbt: Dbt, brought: Import):
    inner = dbt.model(
        "inner",
        "select id from {{ source('raw', 'orders') }}",
        dbt.source(),
        config={"materialized": "ephemeral"},
    )
    outer = dbt.model(
        "outer",
        "select * from {{ ref('inner') }}",
        inner,
        config={"materialized": "ephemeral"},
    )
    dbt.model("orders", "select * from {{ ref('outer') }}", outer)
    brought()
    values = table(dbt, "orders")
    assert [each["step"] for each in values["steps"]] == [
        "ephemeral_inner",
        "ephemeral_outer",
        "load",
    ]
    assert step(dbt, "orders", 1)["sql"] == "select * from ephemeral_inner"
    assert values["depends_on"] == [{"table": "dbt.raw.orders", "window": "newest"}]


def test_other_jinja_is_listed_with_its_line_and_fails(dbt: Dbt, brought: Import):
    code = "{% set x = 1 %}\nselect {{ dbt_utils.star(ref('a')) }}\nfrom t\n{% if x %}{% endif %}"
    dbt.model("orders", code)
    report = brought(code=1)
    assert listed(report) == [
        ("models/orders.sql:1", "model.shop.orders: {% set x = 1 %}"),
        ("models/orders.sql:2", "model.shop.orders: {{ dbt_utils.star(ref('a')) }}"),
        ("models/orders.sql:4", "model.shop.orders: {% if x %}"),
    ]
    assert "raise_error" in step(dbt, "orders")["sql"]
    assert "#     select {{ dbt_utils.star(ref('a')) }}" in dbt.folder.text(
        "tables/dbt/orders.yaml"
    )


def test_compiled_code_is_never_read(dbt: Dbt, brought: Import):
    code = "select {{ now() }} as at"
    dbt.model("orders", code, compiled_code="select current_timestamp() as at", compiled=True)
    brought(code=1)
    assert "raise_error" in step(dbt, "orders")["sql"]


def test_a_table_that_reads_an_untranslated_ephemeral_model_fails(dbt: Dbt, brought: Import):
    inner = dbt.model("inner", "select {{ x() }}", config={"materialized": "ephemeral"})
    dbt.model("orders", "select * from {{ ref('inner') }}", inner)
    assert listed(brought(code=1)) == [("models/inner.sql:1", "model.shop.orders: {{ x() }}")]


def test_the_settings_of_a_model_may_contain_jinja(dbt: Dbt, brought: Import):
    code = "{{ config(alias='{{ this }}', meta={'a': \"}}\"}) }}select 1 as id{# {{ x }} #}"
    dbt.model("orders", code)
    brought()
    assert step(dbt, "orders")["sql"] == "select 1 as id"


def test_a_minus_in_a_tag_removes_white_space(dbt: Dbt, brought: Import):
    dbt.model("orders", "select 'a {{- config(x=1) -}} b' as id")
    brought()
    assert step(dbt, "orders")["sql"] == "select 'ab' as id"


def test_is_incremental_is_false_in_tables(dbt: Dbt, brought: Import):
    code = "select 1 as id {% if is_incremental() %} where x {% else %} where true {% endif %}"
    dbt.model("orders", code)
    brought()
    assert step(dbt, "orders")["sql"] == "select 1 as id  where true"


NEWEST = """
select id, updated_at from {{ source('raw', 'orders') }} o
{% if is_incremental() %}
  -- only new rows
  where o.updated_at > (select coalesce(max(updated_at), '1900-01-01') from {{ this }})
{% endif %}
"""


def test_a_filter_on_the_newest_row_becomes_windows(dbt: Dbt, brought: Import):
    config = {"materialized": "incremental", "unique_key": "id", "incremental_strategy": "merge"}
    dbt.model("orders", NEWEST, dbt.source(), config=config)
    report = brought("--default-start", "2022-01-01")
    values = table(dbt, "orders")
    assert (values["incremental_type"], values["default_start"]) == ("time_window", "2022-01-01")
    condition = "where o.updated_at >= :data_range_start AND o.updated_at < :data_range_end"
    assert condition in step(dbt, "orders")["sql"]
    assert step(dbt, "orders")["target"] == {"type": "iceberg", "mode": "upsert", "key": ["id"]}
    assert "newer than the newest row of the table" in reasons(report, "notes")


def test_a_filter_that_begins_in_a_comment_is_refused(dbt: Dbt, brought: Import):
    code = NEWEST.replace("{% if", "-- {% if").replace("\n  -- only new rows\n", " ")
    dbt.model("orders", code, dbt.source(), config={"materialized": "incremental"})
    report = brought("--default-start", "2022-01-01", code=1)
    assert "begins in a comment" in reasons(report)


def test_windows_of_an_incremental_model_need_a_start(dbt: Dbt, brought: Import):
    dbt.model("orders", NEWEST, dbt.source(), config={"materialized": "incremental"})
    assert "--default-start" in reasons(brought(code=1))


@pytest.mark.parametrize(
    "block",
    [
        "{% if is_incremental() %} where id not in (select id from {{ this }}) {% endif %}",
        "{% if is_incremental() %} where x > (select max(y) from {{ this }}) {% endif %}",
        "{% if is_incremental() %} where x > (select max(x) from {{ this }} where y) {% endif %}",
        "{% if not is_incremental() %} where x {% endif %}",
        "where id in (select id from {{ this }})",
    ],
)
def test_other_filters_of_incremental_models_fail(dbt: Dbt, brought: Import, block: str):
    dbt.model("orders", f"select 1 as id {block}", config={"materialized": "incremental"})
    assert listed(brought("--default-start", "2022-01-01", code=1))
    assert "raise_error" in step(dbt, "orders")["sql"]


@pytest.mark.parametrize(
    ("adapter", "config", "target"),
    [
        ("spark", {"unique_key": "id"}, {"mode": "append"}),
        ("databricks", {"unique_key": ["id", "line"]}, {"mode": "upsert", "key": ["id", "line"]}),
        ("databricks", {}, {"mode": "append"}),
        ("databricks", {"incremental_strategy": "append"}, {"mode": "append"}),
    ],
)
def test_a_strategy_sets_the_write_mode(
    dbt: Dbt, brought: Import, adapter: str, config: Any, target: Any
):
    dbt.adapter = adapter
    config = {"materialized": "incremental", **config}
    dbt.model("orders", "select 1 as id, 2 as line", config=config)
    brought()
    assert step(dbt, "orders")["target"] == {"type": "iceberg", **target}
    assert table(dbt, "orders")["incremental_type"] == "full"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"materialized": "incremental", "sql_header": "SET x"}, "sql_header has no counterpart"),
        ({"incremental_strategy": "insert_overwrite"}, "insert_overwrite has no counterpart"),
        ({"unique_key": "a || b", "incremental_strategy": "merge"}, "is not a column"),
        ({"merge_update_columns": ["a"]}, "merge_update_columns has no counterpart"),
        ({"incremental_predicates": ["a > 1"]}, "incremental_predicates has no counterpart"),
        ({"materialized": "materialized_view"}, "materialized_view has no counterpart"),
    ],
)
def test_settings_that_change_the_rows_are_refused(
    dbt: Dbt, brought: Import, config: Any, reason: str
):
    dbt.model("orders", "select 1 as id", config={"materialized": "incremental", **config})
    assert reason in reasons(brought(code=1))
    assert "raise_error" in step(dbt, "orders")["sql"]


def test_a_microbatch_model_has_the_windows_of_its_batches(dbt: Dbt, brought: Import):
    code = "select * from {{ ref('events') }} join {{ ref('codes') }} using (code)"
    events = dbt.model("events", "select 1 as code", config={"event_time": "at"})
    codes = dbt.model("codes", "select 1 as code")
    batches = dbt.model("orders", code, events, codes, config={**BATCHES, "lookback": 3})
    dbt.model("sums", "select count(*) as n from {{ ref('orders') }}", batches)
    dbt.adapter = "databricks"
    brought()
    values = table(dbt, "orders")
    assert {name: values[name] for name in ("period", "default_start", "lookback")} == {
        "period": "1 day",
        "default_start": "2022-01-03",
        "lookback": "3",
    }
    assert step(dbt, "orders")["sql"] == (
        "select * from (SELECT * FROM dbt.events WHERE at >= :data_range_start "
        "AND at < :data_range_end) join dbt.codes using (code)"
    )
    assert step(dbt, "orders")["target"]["window_column"] == "ordered_at"
    assert table(dbt, "sums")["depends_on"] == [
        {"table": "dbt.orders", "window": "ended", "read": "all"}
    ]


@pytest.mark.parametrize(
    ("size", "begin", "start"),
    [
        ("hour", "2022-01-03T05:30:00", "2022-01-03 05:00:00"),
        ("day", "2022-01-03T05:30:00Z", "2022-01-03"),
        ("month", "2022-02-03", "2022-02-01"),
        ("year", "2022-02-03", "2022-01-01"),
    ],
)
def test_the_first_batch_starts_at_the_truncated_begin(
    dbt: Dbt, brought: Import, size: str, begin: str, start: str
):
    events = dbt.model("events", "select 1 as code", config={"event_time": "at"})
    config = {**BATCHES, "batch_size": size, "begin": begin}
    dbt.model("orders", "select * from {{ ref('events') }}", events, config=config)
    brought()
    assert table(dbt, "orders")["default_start"] == start
    assert table(dbt, "orders")["lookback"] == "1"
    assert table(dbt, "events")["period"] == ("1 hour" if size == "hour" else "1 day")


def test_an_input_with_render_is_not_filtered(dbt: Dbt, brought: Import):
    events = dbt.model("events", "select 1 as code", config={"event_time": "at"})
    newest = "select max(n) from {{ ref('events').render() }}"
    code = f"select * from {{{{ ref('events') }}}} where n < ({newest})"
    dbt.model("orders", code, events, config=BATCHES)
    brought()
    assert step(dbt, "orders")["sql"].endswith("(select max(n) from dbt.events)")


def test_an_input_in_a_comment_filters_no_batch(dbt: Dbt, brought: Import):
    events = dbt.model("events", "select 1 as code", config={"event_time": "at"})
    code = "select 1 as id -- from {{ ref('events') }}"
    dbt.model("orders", code, events, config=BATCHES)
    assert "set event_time there" in reasons(brought(code=1))


def test_batches_that_no_input_filters_are_refused(dbt: Dbt, brought: Import):
    events = dbt.model("events", "select 1 as code")
    dbt.model("orders", "select * from {{ ref('events') }}", events, config=BATCHES)
    assert "set event_time there" in reasons(brought(code=1))


def test_batches_of_another_time_zone_have_no_schedule(dbt: Dbt, brought: Import):
    dbt.folder.configure(timezone="Europe/Berlin")
    events = dbt.model("events", "select 1 as code", config={"event_time": "at"})
    dbt.model("orders", "select * from {{ ref('events') }}", events, config=BATCHES)
    assert "set `timezone: UTC`" in reasons(brought(code=1))
    assert table(dbt, "orders")["release_state"] == "offline"


def test_a_microbatch_model_of_postgres_is_an_upsert(dbt: Dbt, brought: Import):
    dbt.adapter = "postgres"
    events = dbt.model("events", "select id from {{ ref('x') }}", config={"event_time": "at"})
    dbt.nodes[events]["depends_on"]["nodes"] = [dbt.model("x", "select count(*) as id")]
    config = {**BATCHES, "unique_key": "id"}
    dbt.model("orders", "select * from {{ ref('events') }}", events, config=config)
    brought()
    assert step(dbt, "orders")["target"] == {"type": "iceberg", "mode": "upsert", "key": ["id"]}


def test_the_default_strategy_of_an_unknown_adapter_is_refused(dbt: Dbt, brought: Import):
    dbt.adapter = "clickhouse"
    config = {"materialized": "incremental", "unique_key": "id"}
    dbt.model("orders", "select 1 as id", config=config)
    assert "the default strategy of clickhouse is not known" in reasons(brought(code=1))


def test_the_freshness_of_a_source_is_listed_for_review(dbt: Dbt, brought: Import):
    freshness = {"warn_after": {"count": 1, "period": "day"}, "error_after": {"count": None}}
    source = dbt.source(freshness=freshness)
    dbt.model("orders", "select * from {{ source('raw', 'orders') }}", source)
    assert "use `freshness` of the table" in reasons(brought(), "notes")


def test_a_microbatch_model_of_an_unknown_adapter_is_refused(dbt: Dbt, brought: Import):
    dbt.adapter = "clickhouse"
    dbt.model("orders", "select 1 as id", config=BATCHES)
    assert "that microbatch of clickhouse replaces are not known" in reasons(brought(code=1))


@pytest.mark.parametrize(
    "sql",
    [
        "select a / b as c from {{ ref('x') }}",
        'select "A" from {{ ref("x") }}',
        "select a::date as a from {{ ref('x') }}",
        "select a from {{ ref('x') }} where a = 'it\\'",
        "select a from {{ ref('x') }} where a = 'it''s'",
        "select a from {{ ref('x') }} where a >= 'm'",
        "select a from {{ ref('x') }} order by a limit 1",
        "select a || b as c from {{ ref('x') }}",
        "select row_number() over (order by a) as n from {{ ref('x') }}",
        "select coalesce(a, 'x') as a, count(*) as n from {{ ref('x') }} group by a",
        "select distinct on (a) a, b from {{ ref('x') }}",
    ],
)
def test_sql_whose_meaning_differs_between_dialects_is_refused(dbt: Dbt, brought: Import, sql: str):
    dbt.adapter = "postgres"
    dbt.model("orders", sql, dbt.model("x", "select 1 as a"))
    assert "--convert-sql" in reasons(brought(code=1))
    assert "raise_error" in step(dbt, "orders")["sql"]


def test_sql_with_one_meaning_in_all_dialects_is_unchanged(dbt: Dbt, brought: Import):
    dbt.adapter = "snowflake"
    sql = (
        "with x as (select a, coalesce(b, 'none') as kind from {{ ref('x') }} where a is not null)"
        " select kind, count(distinct a) as n from x left join {{ ref('y') }} using (a)"
        " group by kind having count(*) >= 2"
    )
    dbt.model("orders", sql, *(dbt.model(name, "select 1 as a") for name in "xy"))
    brought()
    found = step(dbt, "orders")["sql"]
    assert found == sql.replace("{{ ref('x') }}", "dbt.x").replace("{{ ref('y') }}", "dbt.y")


def test_converted_sql_has_no_schedule_until_it_is_reviewed(dbt: Dbt, brought: Import):
    dbt.adapter = "snowflake"
    dbt.model(
        "orders",
        'select "A", iff(b, 1, 2) as c from {{ ref("x") }}',
        dbt.model("x", "select 1 as a"),
    )
    report = brought("--convert-sql", code=1)
    assert "was converted from snowflake by sqlglot" in reasons(report)
    assert "`A`" in step(dbt, "orders")["sql"]
    assert table(dbt, "orders")["release_state"] == "offline"


def test_text_that_would_be_a_variable_here_is_refused(dbt: Dbt, brought: Import):
    dbt.model("orders", "select '${YEAR}' as year")
    dbt.model("sums", "select :job_id as id")
    report = brought(code=1)
    assert "begins a variable here" in reasons(report)
    assert "is a parameter here" in reasons(report)


def test_tests_become_rules_that_stop_the_publication(dbt: Dbt, brought: Import):
    customers = dbt.model("customers", "select 1 as id")
    orders = dbt.model("orders", "select 1 as id, 'new' as state, 1 as customer_id, 2 as n")
    dbt.test("not_null", orders, "id")
    dbt.test("unique", orders, "id", config={"severity": "warn"})
    dbt.test("accepted_values", orders, "state", values=["new", "paid"])
    dbt.test("accepted_values", orders, "n", values=[1, 2], quote=False)
    dbt.test("relationships", orders, "customer_id", customers, to="ref('customers')", field="id")
    brought()
    assert step(dbt, "orders")["quality"]["columns"] == {
        "id": [{"rule": "not_null", "blocking": "true"}, {"rule": "unique", "level": "warn"}],
        "state": [{"rule": "one_of", "values": ["new", "paid"], "blocking": "true"}],
        "n": [{"rule": "one_of", "values": ["1", "2"], "blocking": "true"}],
        "customer_id": [
            {
                "rule": "references",
                "table": "dbt.customers",
                "column": "id",
                "blocking": "true",
            }
        ],
    }
    assert table(dbt, "orders")["depends_on"] == [{"table": "dbt.customers", "window": "newest"}]
    assert load_project(dbt.folder.root).tables["dbt.orders"].steps[0].quality


def test_tests_of_dbt_utils_become_rules_and_checks(dbt: Dbt, brought: Import):
    orders = dbt.model("orders", "select 1 as id, 'x' as town, 5 as total")
    utils = {"namespace": "dbt_utils"}
    dbt.test("accepted_range", orders, "total", min_value=0, max_value=10, **utils)
    dbt.test("accepted_range", orders, "id", min_value=0, inclusive=False, **utils)
    dbt.test("not_empty_string", orders, "town", **utils)
    dbt.test("not_accepted_values", orders, "town", values=["y"], **utils)
    warn = {"config": {"severity": "warn"}}
    dbt.test("expression_is_true", orders, None, expression="total >= 5", **utils, **warn)
    dbt.test("expression_is_true", orders, "id", expression="< 9", **utils)
    both = ["id", "town"]
    dbt.test("unique_combination_of_columns", orders, None, combination_of_columns=both, **utils)
    dbt.test("at_least_one", orders, "town", **utils)
    assert brought()["untranslated"] == []
    quality = step(dbt, "orders")["quality"]
    assert quality["columns"] == {
        "total": [{"rule": "in_range", "min": "0", "max": "10", "blocking": "true"}],
        "id": [{"rule": "accepted_range", "sql": "id > 0", "blocking": "true"}],
        "town": [
            {"rule": "none_of", "values": ["y"], "blocking": "true"},
            {"rule": "not_empty_string", "sql": "trim(:column) <> ''", "blocking": "true"},
        ],
    }
    assert [rule | {"rule": ""} for rule in quality["rows"]] == [
        {"rule": "", "sql": "total >= 5", "level": "warn"},
        {"rule": "", "sql": "id < 9", "blocking": "true"},
    ]
    assert [check["sql"] for check in table(dbt, "orders")["checks"]] == [
        "SELECT count(town) AS n FROM load HAVING count(town) = 0",
        "SELECT id, town FROM load GROUP BY id, town HAVING count(*) > 1",
    ]


def test_an_expression_of_another_dialect_is_converted_on_request(dbt: Dbt, brought: Import):
    dbt.adapter = "duckdb"
    orders = dbt.model("orders", "select id, net, tax, total from t")
    given = {"namespace": "dbt_utils", "expression": "net + tax = total::bigint"}
    dbt.test("expression_is_true", orders, None, **given)
    assert "convert it with --convert-sql" in reasons(brought(code=1))
    told = brought("--convert-sql", "--overwrite")
    (rule,) = step(dbt, "orders")["quality"]["rows"]
    assert rule["sql"] == "net + tax = CAST(total AS BIGINT)"
    assert "compare its results" in reasons(told, "notes")


@pytest.mark.parametrize(
    ("adapter", "code", "outcome"),
    [
        ("duckdb", "select id, sum(n) as n, max(day) as day from t group by id", 0),
        ("snowflake", "select min(name) as name from t", 0),
        ("bigquery", "select sum(n) as n from t", 0),
        ("bigquery", "select max(n) as n from t", 1),  # NaN
        ("postgres", "select sum(n) as n from t", 1),  # real is summed as real
        ("postgres", "select min(name) as name from t", 1),  # by collation
        ("duckdb", "select max(n) over (partition by id) as n from t", 1),
    ],
)
def test_aggregates_stay_where_they_mean_the_same(
    dbt: Dbt, brought: Import, adapter: str, code: str, outcome: int
):
    dbt.adapter = adapter
    dbt.model("orders", code)
    told = brought(code=outcome)
    assert ("--convert-sql" in str(told["untranslated"])) == bool(outcome)


def test_tables_that_read_a_stub_stay_valid(dbt: Dbt, brought: Import, command: Any):
    orders = dbt.model("orders", "{{ x() }}")
    dbt.model("sums", "select sum(total) as total from {{ ref('orders') }}", orders)
    brought(code=1)
    assert command("validate").code == 0


def singular(dbt: Dbt, code: str, *upstream: str, **config: Any) -> None:
    dbt.nodes["test.shop.totals"] = {
        "resource_type": "test",
        "name": "totals",
        "original_file_path": "tests/totals.sql",
        "raw_code": code,
        "depends_on": {"nodes": list(upstream)},
        "config": {"severity": "ERROR", **config},
    }


def test_a_singular_test_is_a_check_of_the_last_table_that_it_reads(dbt: Dbt, brought: Import):
    raw = dbt.model("raw", "select 1 as id")
    orders = dbt.model("orders", "select id from {{ ref('raw') }}", raw)
    code = "select o.id from {{ ref('orders') }} o left join {{ ref('raw') }} r on o.id = r.id"
    singular(dbt, f"{code} where r.id is null", orders, raw)
    assert brought()["untranslated"] == []
    (check,) = table(dbt, "orders")["checks"]
    assert check["check"] == "totals"
    assert check["sql"].split()[:5] == ["select", "o.id", "from", "load", "o"]
    assert "join dbt.raw r" in check["sql"]
    assert "checks" not in table(dbt, "raw")


def test_a_singular_test_of_several_tables_makes_one_wait(dbt: Dbt, brought: Import):
    a, b = (dbt.model(name, "select 1 as id") for name in ("a", "b"))
    singular(
        dbt, "select 1 as bad from {{ ref('a') }} a join {{ ref('b') }} b on a.id = b.id", a, b
    )
    assert brought()["untranslated"] == []
    assert table(dbt, "b")["depends_on"] == [{"table": "dbt.a", "window": "newest"}]


@pytest.mark.parametrize(
    ("code", "config", "reason"),
    [
        ("select 1 from {{ ref('orders') }}", {"severity": "warn"}, "no severity warn"),
        ("select 1 from {{ ref('orders') }}", {"limit": 5}, "it has limit: 5"),
        ("select {{ x() }} from {{ ref('orders') }}", {}, "is not evaluated"),
    ],
)
def test_a_singular_test_without_a_check_is_listed(
    dbt: Dbt, brought: Import, code: str, config: dict[str, Any], reason: str
):
    singular(dbt, code, dbt.model("orders", "select 1 as id"), **config)
    assert reason in reasons(brought(code=1))
    assert "checks" not in table(dbt, "orders")


def test_a_test_of_all_rows_is_no_check_of_a_window(dbt: Dbt, brought: Import):
    source = dbt.source(config={"event_time": "ordered_at"})
    code = "select * from {{ source('raw', 'orders') }}"
    orders = dbt.model("orders", code, source, config=BATCHES)
    singular(dbt, "select 1 from {{ ref('orders') }} where id is null", orders)
    assert "the rows of one window" in reasons(brought(code=1))


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        ("not_null", {"config": {"where": "id > 1"}}, "it has where: id > 1"),
        ("not_null", {"config": {"error_if": ">10"}}, "it has error_if: >10"),
        ("not_null", {"namespace": "dbt_utils"}, "there is no rule with its meaning"),
        ("unique", {"namespace": "dbt_expectations"}, "there is no rule with its meaning"),
        ("accepted_range", {"namespace": "dbt_utils", "group": 1}, "its bounds are not constants"),
        ("expression_is_true", {"namespace": "dbt_utils", "expression": "{{ x }}"}, "is Jinja"),
        ("recency", {}, "there is no rule with its meaning"),
        ("accepted_values", {"values": [1]}, "it compares the text of 1"),
        ("accepted_values", {"values": ["a"], "quote": False}, "expressions of SQL"),
    ],
)
def test_tests_without_a_rule_of_their_meaning_are_listed(
    dbt: Dbt, brought: Import, kind: str, given: Any, reason: str
):
    dbt.test(kind, dbt.model("orders", "select 1 as id"), "id", **given)
    assert reason in reasons(brought(code=1))
    assert "quality" not in step(dbt, "orders")


def test_unique_of_windows_is_listed_unless_it_is_their_key(dbt: Dbt, brought: Import):
    config = {"materialized": "incremental", "unique_key": "id", "incremental_strategy": "merge"}
    orders = dbt.model("orders", "select 1 as id, 2 as n", config=config)
    dbt.test("unique", orders, "id")
    dbt.test("unique", orders, "n")
    assert "those of all windows" in reasons(brought(code=1))
    assert list(step(dbt, "orders")["quality"]["columns"]) == ["id"]


def test_a_reference_to_a_table_that_reads_this_one_is_listed(dbt: Dbt, brought: Import):
    orders = dbt.model("orders", "select 1 as id")
    sums = dbt.model("sums", "select id from {{ ref('orders') }}", orders)
    dbt.test("relationships", orders, "id", sums, to="ref('sums')", field="id")
    assert "this table cannot wait for it" in reasons(brought(code=1))


def test_a_contract_keeps_its_not_null_constraints(dbt: Dbt, brought: Import):
    columns = {
        "id": {"name": "id", "data_type": "int", "constraints": [{"type": "not_null"}]},
        "n": {"name": "n", "data_type": None, "constraints": [{"type": "check"}]},
    }
    config = {"contract": {"enforced": True}}
    dbt.model("orders", "select 1 as id, 2 as n", columns=columns, config=config)
    report = brought(code=1)
    rules = step(dbt, "orders")["quality"]["columns"]
    assert rules == {"id": [{"rule": "not_null", "blocking": "true"}]}
    assert [item for _, item in listed(report)] == ["orders.n", "contract: id int"]
    assert "columns" not in table(dbt, "orders")


def test_a_contract_with_types_of_spark_becomes_columns(dbt: Dbt, brought: Import):
    columns = {
        "id": {"name": "id", "data_type": "int", "description": "the key"},
        "n": {"name": "n", "data_type": "decimal(9, 2)", "description": "it's"},
    }
    config = {"contract": {"enforced": True}}
    dbt.model("orders", "select 1 as id, 2.00 as n", columns=columns, config=config)
    brought()
    assert table(dbt, "orders")["columns"] == "id int COMMENT 'the key', n decimal(9, 2)"
    assert load_project(dbt.folder.root).tables["dbt.orders"].columns


def test_a_seed_with_declared_types_is_read_from_its_file(dbt: Dbt, brought: Import):
    for name, types in (("codes", {"id": "bigint", "name": "string"}), ("other", {"id": "int"})):
        dbt.folder.write(f"theirs/seeds/{name}.csv", "id,name\n1,a\n")
        dbt.model(
            name,
            "",
            resource_type="seed",
            original_file_path=f"seeds/{name}.csv",
            config={"column_types": types},
        )
    report = brought(code=1)
    assert "give column_types in Spark's types for name" in reasons(report)
    assert step(dbt, "codes")["source"] == {
        "type": "csv",
        "path": "theirs/seeds/codes.csv",
        "header": "true",
        "columns": "id bigint, name string",
        "null_value": "",
    }
    assert "raise_error" in step(dbt, "other")["sql"]


def test_python_models_fail(dbt: Dbt, brought: Import):
    dbt.model("model", "def model(dbt, session): ...", language="python")
    report = brought(code=1)
    assert "it is Python of dbt" in reasons(report)


def test_description_owners_and_tags_are_kept(dbt: Dbt, brought: Import):
    config = {"meta": {"owner": ["ann@example.com", "@bob"]}, "tags": ["nightly"]}
    dbt.model("orders", "select 1 as id", description="costs ${x}", config=config)
    config["meta"] |= {"pii": True}  # type: ignore[operator]
    dbt.model("orders", "select 1 as id", description="costs ${x}", config=config)
    items = [each["item"] for each in brought()["notes"]]
    assert ["@bob" in items[0], items[1]] == [True, "model.shop.orders: meta pii"]
    values = table(dbt, "orders")
    assert values["description"] == "costs $ {x}"
    assert (values["owners"], values["tags"]) == (["ann@example.com"], {"nightly": ""})


def test_the_owner_of_a_group_owns_its_models(dbt: Dbt, brought: Import):
    owner = {"name": "Finance", "email": ["ann@example.com"]}
    dbt.others = {"groups": {"group.shop.finance": {"owner": owner}}}
    dbt.model("orders", "select 1 as id", config={"group": "finance", "tags": "nightly"})
    brought()
    values = table(dbt, "orders")
    assert (values["owners"], values["tags"]) == (["ann@example.com"], {"nightly": ""})


def test_hooks_are_listed_and_their_table_has_no_schedule(dbt: Dbt, brought: Import):
    dbt.model("orders", "select 1 as id", config={"post-hook": [{"sql": "grant select"}]})
    assert "post-hook is not translated" in reasons(brought(code=1))
    assert table(dbt, "orders")["release_state"] == "offline"


def test_items_without_a_counterpart_are_listed_by_name(dbt: Dbt, brought: Import):
    dbt.model("orders", "select 1 as id")
    dbt.nodes["analysis.shop.look"] = {
        "resource_type": "analysis",
        "name": "look",
        "original_file_path": "analyses/look.sql",
        "raw_code": "select 1",
    }
    source = dbt.source("unread")
    dbt.others = {
        "exposures": {"exposure.shop.a": {"name": "a", "original_file_path": "models/b.yml"}},
        "unit_tests": {"unit_test.shop.orders.u": {"name": "u"}},
        "metrics": {},
    }
    told = brought(code=1)
    assert listed(told) == [("models/b.yml", "exposures: a"), ("manifest.json", "unit_tests: u")]
    assert [each["item"] for each in told["notes"]] == ["analysis.shop.look", source]


@pytest.mark.parametrize(
    ("code", "sql"),
    [
        ("select '{{ var(\"first\") }}' as a", "select '2020-01-01' as a"),
        ("select {{ var('size', 3) }} as a", "select 7 as a"),
        ("select {{ var('other', 3) }} as a", "select 3 as a"),
    ],
)
def test_a_variable_has_the_value_of_the_project(dbt: Dbt, brought: Import, code: str, sql: str):
    values = "name: shop\nvars:\n  first: 2020-01-01\n  size: 5\n  shop: {size: 7}\n"
    dbt.folder.write("theirs/dbt_project.yml", values)
    dbt.model("orders", code)
    told = brought()
    assert step(dbt, "orders")["sql"] == sql
    assert "a value of `dbt run --vars` is not in the manifest" in told["notes"][0]["reason"]


@pytest.mark.parametrize(
    ("project", "code", "reason"),
    [
        (None, "select {{ var('size', 3) }} as a", "could not be read"),
        ("name: shop", "select {{ var('size') }} as a", "has no value of size"),
        ("name: other", "select {{ var('size', 3) }} as a", "has no value of size"),
        ("name: shop\nvars: {size: [1]}", "select {{ var('size') }} as a", "not a constant"),
        ("name: shop\nvars: {size: '{{ 1 }}'}", "select {{ var('size') }} as a", "not a constant"),
        ("name: shop", "select {{ var(target.name) }} as a", "not constants"),
    ],
)
def test_a_variable_without_a_known_value_is_refused(
    dbt: Dbt, brought: Import, project: str | None, code: str, reason: str
):
    if project is not None:
        dbt.folder.write("theirs/dbt_project.yml", project)
    dbt.model("orders", code)
    assert reason in reasons(brought(code=1))


def test_tests_of_dbt_expectations_are_rules(dbt: Dbt, brought: Import):
    orders = dbt.model("orders", "select 1 as id, 2 as amount")
    package = {"namespace": "dbt_expectations"}
    dbt.test("expect_column_values_to_not_be_null", orders, "id", **package)
    dbt.test("expect_column_values_to_be_between", orders, "amount", min_value=1, **package)
    brought()
    assert step(dbt, "orders")["quality"]["columns"] == {
        "id": [{"rule": "not_null", "blocking": "true"}],
        "amount": [{"rule": "in_range", "min": "1", "blocking": "true"}],
    }
    dbt.test("expect_column_values_to_be_unique", orders, "id", row_condition="id > 1", **package)
    assert "has no row_condition here" in reasons(brought("--overwrite", code=1))


def test_changes_of_columns_that_dbt_refuses_are_noted(dbt: Dbt, brought: Import):
    config = {"materialized": "incremental", "on_schema_change": "fail", "unique_key": "id"}
    dbt.model("orders", "select 1 as id", config={**config, "incremental_strategy": "merge"})
    assert "on_schema_change: fail" in str(brought()["notes"])


def test_versions_of_a_model_are_tables_of_their_own(dbt: Dbt, brought: Import):
    versions = [
        dbt.model(f"orders.v{n}", f"select {n} as id", name="orders", version=n) for n in (1, 2)
    ]
    dbt.model("sums", "select * from {{ ref('orders', v=1) }}", *versions)
    brought()
    assert step(dbt, "sums")["sql"] == "select * from dbt.orders_v1"


@pytest.mark.parametrize("adapter", ["spark", "snowflake"])
@pytest.mark.parametrize("code", ["", "-- nothing", None, "select 1 as id; select 2 as id"])
def test_a_model_without_one_query_fails(dbt: Dbt, brought: Import, adapter: str, code: Any):
    dbt.adapter = adapter
    dbt.model("orders", code)
    assert [place for place, _ in listed(brought(code=1))]
    assert "raise_error" in step(dbt, "orders")["sql"]


@pytest.mark.parametrize(
    "field", ["name", "config", "depends_on", "columns", "raw_code", "resource_type"]
)
def test_a_field_of_another_type_is_refused(dbt: Dbt, brought: Import, field: str):
    found = dbt.model("orders", "select 1 as id")
    dbt.nodes[found][field] = [1]
    if field == "resource_type":
        del dbt.nodes[found][field]
    assert "is not a manifest of dbt" in brought(code=2)


def test_upstreams_of_another_type_are_refused(dbt: Dbt, brought: Import):
    found = dbt.model("orders", "select 1 as id")
    dbt.nodes[found]["depends_on"] = {"nodes": 3}
    assert "nodes is not of the type list" in brought(code=2)


@pytest.mark.parametrize("version", ["v9", "v13", "v20"])
def test_other_versions_of_a_manifest_are_refused(dbt: Dbt, brought: Import, version: str):
    dbt.version = version
    assert "supported are v10 to v12" in brought(code=2)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"metadata": {}}', "null"])
def test_a_file_that_is_no_manifest_is_refused(dbt: Dbt, command: Any, text: str):
    dbt.folder.write("m.json", text)
    result = command("import-dbt", dbt.folder.root / "m.json")
    assert result.code == 2
    assert "is not a manifest of dbt" in result.err


def test_yaml_of_a_draft_can_be_read(dbt: Dbt, brought: Import):
    dbt.model("orders", "select 'a: b' as id\r\n  , 2 as n\r\n")
    brought()
    assert yaml.safe_load(dbt.folder.text("tables/dbt/orders.yaml"))["steps"][0]["sql"] == (
        "select 'a: b' as id\n  , 2 as n\n"
    )


def test_imported_models_run(dbt: Dbt, brought: Import, spark: Any):
    """Batches of an ephemeral model, their tests, and a table that reads them all."""
    dbt.folder.spark = spark
    code = """
        select 1 as id, timestamp'2022-01-08 10:00' as ordered_at
        union all select 2, timestamp'2022-01-09 10:00'
        union all select 3, timestamp'2022-01-01 10:00'
    """
    config = {"materialized": "ephemeral", "event_time": "ordered_at"}
    events = dbt.model("events", code, config=config)
    config = {**BATCHES, "begin": "2022-01-08", "lookback": 0}
    orders = dbt.model("orders", "select * from {{ ref('events') }}", events, config=config)
    dbt.model("sums", "select count(*) as n from {{ ref('orders') }}", orders)
    dbt.test("not_null", orders, "id")
    sums = "model.shop.sums"
    utils = {"namespace": "dbt_utils"}
    dbt.test("expression_is_true", sums, None, expression="n between 1 and 2", **utils)
    dbt.test("unique_combination_of_columns", sums, None, combination_of_columns=["n"], **utils)
    dbt.test("at_least_one", sums, "n", **utils)
    singular(dbt, "select * from {{ ref('sums') }} where n > 2", sums)
    dbt.adapter = "databricks"
    texts = '1,a\n2,\n3,""\n4," Null "\n5,nullable\n'
    dbt.folder.write("theirs/seeds/codes.csv", f"id,name\n{texts}")
    types = {"column_types": {"id": "bigint", "name": "string"}}
    seed = {"resource_type": "seed", "original_file_path": "seeds/codes.csv", "config": types}
    dbt.model("codes", "", **seed)
    brought()
    dbt.folder.run_all()
    names = [(1, "a"), (2, None), (3, None), (4, None), (5, "nullable")]
    assert sorted(dbt.folder.rows("dbt.codes")) == names
    assert dbt.folder.rows("dbt.sums") == [(2,)]
    assert [row[0] for row in dbt.folder.rows("dbt.orders")] == [1, 2]
