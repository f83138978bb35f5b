"""Which columns a query's result is made of, offline. Checklist row B30."""

import textwrap

import pytest

from logdriven_dagster.config.sql.column_lineage import trace_lineage
from logdriven_dagster.config.sql.queries import list_queries, map_written_places
from logdriven_dagster.model.lineage import (
    ColumnRef,
    Container,
    NodeType,
    Query,
    find_outer_origins,
)

FLIGHTS, AIRPORTS = Container("ods.flights"), Container("ods.airports")
NAMES = {"ods.flights": FLIGHTS, "ods.airports": AIRPORTS, "source": Container("f.csv")}
KNOWN = {FLIGHTS: ("Origin", "dest", "n"), AIRPORTS: ("code", "name")}
JOIN = "ods.flights f JOIN ods.airports a ON a.code = f.origin"


def lineage(text, columns, known=KNOWN):
    asked = Query(
        "dwd.t", "load", "spark", text, Container("dwd.t"), tuple(columns.split("|")), NAMES
    )
    return trace_lineage(asked, known)


def origins(found):
    return {made.column: " ".join(map(str, made.origins)) for made in found.columns}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT day, n AS m FROM source", {"day": "f.csv.day", "m": "f.csv.n"}),
        ("SELECT `Origin` FROM `ods`.`flights`", {"Origin": "ods.flights.Origin"}),
        ("SELECT ods.flights.origin AS o FROM ods.flights", {"o": "ods.flights.Origin"}),
        (f"SELECT name, n FROM {JOIN}", {"name": "ods.airports.name", "n": "ods.flights.n"}),
        (f"SELECT f.* FROM {JOIN}", {"dest": "ods.flights.dest", "n": "ods.flights.n"}),
        ("SELECT n + length(dest) AS x FROM ods.flights", {"x": "ods.flights.dest ods.flights.n"}),
        (
            "SELECT count(*) AS c, sum(n) FROM ods.flights",
            {"c": "ods.flights.*", "sum(n)": "ods.flights.n"},
        ),
        ("SELECT 1 AS one, '${YEAR}' AS y FROM ods.flights", {"one": "", "y": ""}),
        (
            "SELECT origin FROM ods.flights UNION ALL SELECT code FROM ods.airports",
            {"origin": "ods.airports.code ods.flights.Origin"},
        ),
        (
            "WITH x AS (SELECT upper(dest) AS d FROM ods.flights) SELECT d FROM x",
            {"d": "ods.flights.dest"},
        ),
        (
            "SELECT (SELECT max(name) FROM ods.airports) AS m FROM ods.flights",
            {"m": "ods.airports.name"},
        ),
        (
            "SELECT n FROM ods.flights WHERE day >= :data_range_start AND n > ${least}",
            {"n": "ods.flights.n"},
        ),
    ],
)
def test_each_column_has_its_origin_b30(text, wanted):
    found = lineage(text, "|".join(wanted))
    assert (origins(found), found.absent) == (wanted, None)


def test_functions_and_temporary_tables_on_the_way_are_reported_b30():
    text = "WITH x AS (SELECT trim(dest) AS d FROM ods.flights) SELECT CAST(d AS INT) AS d FROM x"
    (made,) = lineage(text, "d").columns
    assert (made.functions, made.temps) == (("cast", "trim"), ("x",))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT * FROM ods.flights", {"dest": "ods.flights.dest"}),
        ("SELECT dest AS d FROM (SELECT * FROM ods.flights) x", {"d": "ods.flights.dest"}),
        (f"SELECT f.* FROM {JOIN}", {"dest": "ods.flights.dest"}),
        (f"SELECT * FROM {JOIN}", {"dest": "ods.airports.* ods.flights.*"}),
        ("SELECT x FROM source LATERAL VIEW explode(items) t AS x", {"x": "f.csv.*"}),
    ],
)
def test_without_schemas_it_is_as_exact_as_it_can_be(text, wanted):
    assert origins(lineage(text, "|".join(wanted), {})) == wanted


def test_columns_that_a_table_gained_since_do_not_matter():
    found = lineage("SELECT gained FROM ods.flights", "gained")
    assert (origins(found), found.absent) == ({"gained": "ods.flights.gained"}, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELEC 1", "cannot read this query"),
        (f"SELECT mystery FROM {JOIN}", "column mystery: the table of mystery is unknown"),
    ],
)
def test_an_unknown_origin_is_absent_with_its_reason(text, why):
    found = lineage(text, "mystery", {})
    assert why in found.absent
    assert origins(found) == {"mystery": ""}


PROJECT = """
    project: p
    variables: {schema: public}
    connections: {shop: {url: "postgresql://u@h/d"}}
"""
TABLE = """
    table: {name}
    period: 1 day
    default_start: 2022-01-01
    steps:
{steps}
"""


@pytest.fixture
def asked(folder):
    """The lineages of a table's steps, whose results have some columns."""
    folder.write("logdriven.yaml", PROJECT)

    def ask(steps, table="dwd.t", **columns):
        steps = textwrap.indent(textwrap.dedent(steps).strip(), " " * 6)
        folder.write(f"tables/{table}.yaml", TABLE.format(name=table, steps=steps))
        project = folder.load()
        columns_of = {step: tuple(names.split()) for step, names in columns.items()}
        given, writers = project.config.variables, map_written_places(project)
        found = list(list_queries(project, project.tables[table], columns_of, given, writers))
        results = {query.result: query.columns for query in found}
        return [trace_lineage(query, results) for query in found]

    return ask


def test_a_database_query_is_followed_in_its_own_dialect(asked):
    (load,) = asked(
        """
        - step: load
          source:
            type: jdbc
            connection: shop
            query: SELECT id, lower(mail) AS m, now()::date AS d FROM ${schema}.users
          sql: SELECT id, concat(m, 'x') AS mm, d FROM source
          target: {type: iceberg}
        """,
        load="id mm d",
    )
    assert origins(load) == {"id": "shop:public.users.id", "mm": "shop:public.users.mail", "d": ""}
    assert load.columns[1].functions == ("concat", "lower")


def test_a_source_without_a_query_hands_its_columns_on(asked):
    (load,) = asked(
        """
        - step: load
          source: {type: jdbc, connection: shop, table: "${schema}.users"}
          target: {type: iceberg}
        """,
        load="id mail",
    )
    assert origins(load) == {"id": "shop:public.users.id", "mail": "shop:public.users.mail"}


def test_reading_a_database_table_that_a_table_wrote_is_reading_the_table(asked):
    write = """
        - step: load
          sql: SELECT 1 AS one
          target: {type: jdbc, connection: shop, table: Out.Numbers}
    """
    asked(write, table="ods.numbers", load="one")
    for origin in ("table: out.numbers", "query: SELECT one FROM out.numbers"):
        (load,) = asked(
            f"""
            - step: load
              source: {{type: jdbc, connection: shop, {origin}}}
              target: {{type: iceberg}}
            """,
            load="one",
        )
        assert origins(load) == {"one": "ods.numbers.one"}


def test_steps_before_are_followed_to_what_is_outside_of_the_attempt(asked):
    found = asked(
        """
        - step: raw
          source: {type: csv, path: "in/${schema}.csv"}
        - {step: shape, sql: SELECT a AS b FROM raw, target: {type: parquet}}
        - step: last
          sql: SELECT b AS c, count(*) AS n FROM shape GROUP BY 1
          target: {type: iceberg}
        """,
        raw="a",
        shape="b",
        last="c n",
    )
    assert [query.result for query in found] == [
        Container("dwd.t#raw", NodeType.TEMP),
        Container("dwd.t#shape"),
        Container("dwd.t"),
    ]
    file = Container("in/public.csv")
    assert find_outer_origins(found, Container("dwd.t")) == {
        "c": (ColumnRef(file, "a"),),
        "n": (ColumnRef(file, None),),
    }


def test_the_digest_changes_with_the_text_and_with_the_result():
    def digest(text, *columns):
        return Query("t", "load", "spark", text, Container("t"), columns, NAMES).digest

    assert digest("SELECT 1", "a") == digest("SELECT 1", "a")
    assert len({digest("SELECT 1", "a"), digest("SELECT 1", "b"), digest("SELECT 2", "a")}) == 3
