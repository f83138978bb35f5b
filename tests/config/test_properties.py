"""Parameters by group and key. Checklist row B31."""

import pytest

from logdriven_dagster.config.secrets import redact

PROJECT = """
    project: p
    variables: {a.b: dotted}
    properties:
      source: {schema: public, fetch: 1000}
      quality: {strict: true}
"""


@pytest.fixture
def project(folder):
    return folder.write("logdriven.yaml", PROJECT)


def with_file(project):
    """The step of table t has its query in q.sql."""
    text = (project.root / "tables/t.yaml").read_text()
    project.write("tables/t.yaml", text.replace("sql: SELECT 1 AS one", "sql_file: q.sql"))


def test_a_table_has_its_own_properties_and_the_projects_by_group_b31(project):
    project.table("t", "properties: {source: {schema: sales}, export: {path: out}}")
    loaded = project.load()
    assert loaded.get_unresolved_properties(loaded.tables["t"]) == {
        "source": {"schema": "sales", "fetch": "1000"},
        "quality": {"strict": "true"},
        "export": {"path": "out"},
    }


def test_a_property_stands_in_any_text_of_the_table(project):
    project.table("t", "description: from ${source.schema}", "SELECT 1 FROM ${source.schema}.x")
    table = project.load().tables["t"]
    assert table.description == "from public"
    assert table.steps[0].sql == "SELECT 1 FROM public.x"


def test_a_whole_reference_is_the_value_with_its_type(project):
    project.table("t", "retries: ${source.fetch}\nordered: ${quality.strict}")
    assert project.load().tables["t"].retries == 1000


def test_a_property_stands_in_sql_files_and_their_tables_are_checked(project):
    project.write("tables/q.sql", "SELECT * FROM ${source.schema}.orders -- ${DATA_RANGE_START}")
    project.table("t").table("public.orders")
    with_file(project)
    assert "reads public.orders, which is not in depends_on" in project.mistakes()
    project.table("t", "depends_on: [public.orders]")
    with_file(project)
    loaded = project.load()
    table = loaded.tables["t"]
    wanted = "SELECT * FROM public.orders -- ${DATA_RANGE_START}\n"
    assert loaded.step_sql(table, table.steps[0]) == wanted


def test_variables_and_secrets_are_resolved_later(project, monkeypatch):
    monkeypatch.setenv("KEY_OF_MINE", "s3cr3t-of-mine")
    extra = "properties: {api: {key: '${env:KEY_OF_MINE}'}}\ntags: {k: '${api.key}'}"
    project.table("t", extra, "SELECT '${a.b}', '${DATA_RANGE_START}'")
    loaded = project.load()
    table = loaded.tables["t"]
    assert table.tags == {"k": "${env:KEY_OF_MINE}"}
    assert table.steps[0].sql == "SELECT '${a.b}', '${DATA_RANGE_START}'"
    assert loaded.get_unresolved_properties(table)["api"] == {"key": "${env:KEY_OF_MINE}"}
    assert loaded.properties(table)["api"] == {"key": "s3cr3t-of-mine"}
    assert redact("it is s3cr3t-of-mine") == "it is ***"


def test_templates_give_properties_to_many_tables_b31(project):
    project.write(
        "tables/all.yaml",
        """
        for_each: [eu, us]
        table: ods.${each}
        period: 1 day
        default_start: 2022-01-01
        properties: {source: {schema: "sales_${each}"}}
        steps: [{step: load, sql: "SELECT * FROM ${source.schema}.x", target: {type: iceberg}}]
        """,
    )
    tables = project.load().tables.values()
    assert [table.steps[0].sql for table in tables] == [
        "SELECT * FROM sales_eu.x",
        "SELECT * FROM sales_us.x",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${source.schem}", "unknown property ${source.schem}; did you mean 'schema'?"),
        ("${source.zzz}", "unknown property ${source.zzz}; group source has schema, fetch"),
        ("${sorce.schema}", "unknown property ${sorce.schema}; did you mean 'source'?"),
        ("${each.x}", "unknown property ${each.x}; only allowed in a file with for_each"),
    ],
)
def test_an_unknown_property_is_reported_with_its_line(project, text, told):
    assert (
        f"tables/t.yaml:4: description: {told}"
        in project.table("t", f"description: {text}").mistakes()
    )


def test_an_unknown_property_in_an_sql_file_is_reported(project):
    project.write("tables/q.sql", "SELECT ${nothing.there}").table("t")
    with_file(project)
    told = "tables/t.yaml:7: steps[0].sql_file: unknown property ${nothing.there}"
    assert told in project.mistakes()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{each: {a: 1}}", "choose another name"),
        ("{g: {a: '${source.schema}'}}", "a property cannot refer to another property"),
        ("{g: 1}", "must be names and values"),
    ],
)
def test_what_cannot_be_a_property_is_refused(project, given, told):
    assert told in project.table("t", f"properties: {given}").mistakes()


def test_a_secret_in_plain_text_is_refused_wherever_it_stands(project):
    given = "properties: {api: {password: hunter-22}}"
    project.write("logdriven.yaml", f"project: p\n{given}")
    project.table("t", given.replace("22", "33")).table("u")
    told = project.mistakes()
    assert "logdriven.yaml:2: properties.api.password: a secret in plain text" in told
    assert "tables/t.yaml:4: properties.api.password: a secret in plain text" in told
    assert told.count("in plain text") == 2
    assert redact("hunter-22 and hunter-33") == "*** and ***"
