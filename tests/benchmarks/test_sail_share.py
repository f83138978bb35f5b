"""Models of dbt and SQLMesh projects are read as plain queries, and the list is applied to them."""

import pytest

from benchmarks.sail_share import (
    SkippedError,
    TypedColumns,
    count_project,
    find_refusal,
    read_model,
    shorten_reason,
)

DBT = """
{{ config(materialized='incremental', tags=['x']) }} {# a comment #}
select o.id, c.name from {{ ref('orders') }} as o
left join {{ source('crm', 'customers') }} as c on o.customer_id = c.id
{% if is_incremental() %} where o.day > (select max(day) from {{ this }}) {% endif %}
"""
SQLMESH = """
MODEL (name db.a, kind FULL, dialect duckdb, audits (unique_values(columns := (id))));
SELECT id::INT AS id FROM @raw.orders WHERE day BETWEEN @start_ds AND @end_ds;
"""


def test_jinja_of_a_dbt_model_is_replaced_as_in_a_full_refresh():
    assert read_model(DBT).sql("spark") == (
        "SELECT o.id, c.name FROM orders AS o LEFT JOIN crm.customers AS c ON o.customer_id = c.id"
    )


def test_a_sqlmesh_model_is_read_in_its_own_dialect_without_its_header():
    assert read_model(SQLMESH, "bigquery").sql("duckdb") == (
        "SELECT CAST(id AS INT) AS id FROM raw.orders "
        "WHERE day BETWEEN '2024-01-01' AND '2024-01-01'"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select {{ dbt_utils.star(ref('a')) }} from {{ ref('a') }}", "Jinja or macros"),
        ("MODEL (name a); SELECT @double(x) AS x FROM t", "Jinja or macros"),
        ("MODEL (name a, kind SEED);", "no single query"),
        ("select 1 from t; select 2 from t", "no single query"),
        ("select from from", "not parsed by sqlglot"),
    ],
)
def test_models_that_are_no_plain_query_are_skipped(text: str, reason: str):
    with pytest.raises(SkippedError, match=reason):
        read_model(text)


def test_columns_are_found_through_stars_unions_and_renamed_tables():
    query = read_model(
        "with a as (select * from t), b as (select x, y as z from u), "
        "c as (select * from a union all select * from b) select x, z from c"
    )
    assert TypedColumns(query).tables == {"t": ["x", "z"], "u": ["x", "y"]}


@pytest.mark.parametrize(
    ("sql", "refusal"),
    [
        ("select upper(name) as name, amount * 2 as twice from t where paid", ""),
        ("select upper(name) as name, name * 2 as twice from t", "string * int"),
        ("select name, day, count(*) as n from t where paid group by name", "day outside"),
        ("select name, sum(n) as n from t where paid and day >= cast(d as date) group by name", ""),
        ("select id from t order by id", "ORDER"),
        ("select a + 1 as b, b + 1 as c from t", "the name b"),
    ],
)
def test_the_list_is_applied_with_types_in_its_favor(sql: str, refusal: str):
    found = find_refusal(read_model(sql))
    assert found is None if not refusal else str(found).startswith(refusal)


def test_reasons_are_counted_without_the_names_of_a_query():
    assert shorten_reason("amount outside of GROUP BY") == "a column outside of GROUP BY"
    assert shorten_reason("CAST of decimal(9,2) to double") == "CAST of decimal to double"


def test_queries_that_only_select_columns_are_counted_separately(tmp_path):
    for name, sql in {
        "a": "select x from t",
        "b": "select x from t where y = 1",
        "c": "{%",
    }.items():
        (tmp_path / f"{name}.sql").write_text(sql)
    count = count_project(tmp_path, None, 10)
    assert (count.models, count.queries, count.accepted) == (3, 2, 2)
    assert (count.plain, count.plain_accepted) == (1, 1)
    assert count_project(tmp_path, None, 1).models == 1
