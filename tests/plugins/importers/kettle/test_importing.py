"""Jobs and tables from Kettle's configuration and transformations."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.events import WindowFailed
from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.ktr import quote_names
from tests.plugins.importers.conftest import NOW, Folder
from tests.plugins.importers.kettle.world import (
    ARGUMENTS,
    Command,
    Kettle,
    maps,
    rows,
    step,
)


@pytest.fixture
def kettle(folder: Folder) -> Kettle:
    return Kettle(folder)


@pytest.fixture
def brought(kettle: Kettle, command: Command) -> Callable[..., Any]:
    """Import with the repository; the exit code tells whether something is listed."""

    def run(*options: object, code: int = 0) -> Any:
        known = () if "--map" in options else maps(kettle.folder)
        result = command("import-kettle", *ARGUMENTS, kettle.repository, "--json", *known, *options)
        assert result.code == code, result.out + result.err
        return result.json

    return run


def reasons(told: Any, key: str = "untranslated") -> str:
    return "\n".join(f"{each['place']}: {each['reason']}" for each in told[key])


def test_a_standard_job_with_its_tables_and_upstreams(kettle: Kettle, brought: Any):
    kettle.job("nightly", retries=3)
    for name in ("orders", "sums"):
        kettle.table("nightly", name)
        kettle.copies(f"ktr_{name}", "SELECT 1 AS one", name)
    kettle.depends("orders", "crm", is_etl="N")
    kettle.depends("sums", "orders")
    brought()
    folder = kettle.folder
    job = folder.values("jobs/nightly.yaml")
    assert (job["tables"], job["retries"]) == (["kettle.orders", "kettle.sums"], "2")
    orders, sums = (folder.values(f"tables/kettle/{name}.yaml") for name in ("orders", "sums"))
    assert orders["depends_on"] == [{"table": "kettle.crm", "managed": "false"}]
    assert sums["depends_on"] == [{"table": "kettle.orders", "read": "none"}]
    assert (sums["incremental_type"], sums["period"]) == ("full", "1 day")
    assert sums["steps"][0]["target"]["mode"] == "overwrite"


def test_what_is_disabled_stays_disabled(kettle: Kettle, brought: Any):
    kettle.job("nightly", enabled="N", retries=1)
    kettle.table("nightly", "orders", enabled="N")
    kettle.depends("orders", "crm", is_etl="N")
    kettle.copies("ktr_orders", "SELECT 1 AS one", "orders")
    brought()
    project = load_project(kettle.folder.root)
    assert not project.jobs["nightly"].enabled
    assert not project.tables["kettle.orders"].enabled
    assert project.jobs["nightly"].retries == 0


def test_tables_of_a_disabled_job_do_not_run(kettle: Kettle, brought: Any):
    kettle.job("nightly", enabled="N")
    kettle.job("weekly")
    for name in ("orders", "customers"):
        kettle.table("nightly", name)
        kettle.copies(f"ktr_{name}", "SELECT 1 AS one", name)
    kettle.table("weekly", "customers")
    brought()
    project = load_project(kettle.folder.root)
    assert not project.tables["kettle.orders"].enabled
    assert project.tables["kettle.customers"].enabled


def test_the_second_of_two_tables_with_one_target_is_a_stub_and_the_job_stays(
    kettle: Kettle, brought: Any
):
    kettle.job("nightly")
    for name in ("orders", "orders_too", "customers"):
        kettle.table("nightly", name)
        kettle.copies(f"ktr_{name}", "SELECT 1 AS one", name.removesuffix("_too"))
    assert "kettle.orders.load writes to the same target" in reasons(brought(code=1))
    project = load_project(kettle.folder.root)
    assert project.jobs["nightly"].tables == (
        "kettle.orders",
        "kettle.orders_too",
        "kettle.customers",
    )
    assert project.tables["kettle.orders_too"].release_state == "offline"
    assert "raise_error" in str(project.tables["kettle.orders_too"].steps[0].sql)


def test_the_name_of_the_job_is_a_parameter_where_two_jobs_run_a_table(
    kettle: Kettle, brought: Any
):
    for job in ("nightly", "weekly"):
        kettle.job(job)
        kettle.table(job, "orders")
    kettle.copies("ktr_orders", "SELECT '${KJB_NAME}' AS job, '${TBL_NAME}' AS name", "orders")
    assert "KJB_NAME is a parameter of the jobs nightly, weekly" in reasons(brought(code=1))
    project = load_project(kettle.folder.root)
    orders = project.tables["kettle.orders"]
    assert "'${KJB_NAME}' AS job, 'orders' AS name" in str(orders.steps[0].source)
    assert orders.release_state == "offline"
    assert project.jobs["weekly"].parameters == {"KJB_NAME": "weekly"}


def test_a_table_that_only_another_job_runs_is_enabled_there(kettle: Kettle, brought: Any):
    for job, enabled in (("nightly", "N"), ("weekly", "Y")):
        kettle.job(job)
        kettle.table(job, "orders", enabled=enabled)
        kettle.table(job, f"of_{job}")
    kettle.copies("ktr_orders", "SELECT 1 AS one", "orders")
    told = brought(code=1)
    project = load_project(kettle.folder.root)
    assert project.tables["kettle.orders"].enabled
    assert project.jobs["nightly"].tables == ("kettle.of_nightly",)
    assert project.jobs["weekly"].tables == ("kettle.orders", "kettle.of_weekly")
    assert "disabled in this job only" in reasons(told, "notes")


def test_scripts_run_in_the_transaction_that_publishes(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    before = "DELETE FROM orders WHERE v = 'a;b'; -- done\nDELETE FROM ${TBL_NAME};\n-- the end"
    query = "SELECT id,\n\tv -- all\nFROM s\nWHERE v <> ';' ;"
    kettle.copies("ktr_orders", query, "orders", before=before, truncate="N")
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["target"]["mode"] == "append"
    assert loaded["target"]["pre_sql"] == [
        "DELETE FROM orders WHERE v = 'a;b'",
        "-- done\nDELETE FROM orders\n",
    ]
    assert loaded["source"]["query"] == "SELECT id,\n    v -- all\nFROM s\nWHERE v <> ';'\n"
    assert "query: |" in kettle.folder.text("tables/kettle/orders.yaml")


def test_scripts_that_fill_what_the_query_reads_run_before_it_k19(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    before = "DELETE FROM stage; INSERT INTO stage SELECT * FROM live"
    kettle.copies("ktr_orders", "SELECT * FROM stage", "orders", before=before)
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["commit_before_read"] == [
        {"connection": "shop", "sql": ["DELETE FROM stage", "INSERT INTO stage SELECT * FROM live"]}
    ]
    assert "pre_sql" not in loaded["target"]


@pytest.mark.parametrize(
    ("script", "query"),
    [
        ("DELETE FROM orders WHERE id IN (SELECT id FROM gone)", "SELECT 1 AS id"),
        ("DELETE FROM orders", "SELECT id FROM live WHERE id NOT IN (SELECT id FROM orders)"),
        ("CALL refill()", "SELECT 1 AS id"),
        ("UPDATE orders SET id = refilled(id)", "SELECT 1 AS id"),
    ],
)
def test_scripts_that_could_meet_the_query_run_before_it(
    kettle: Kettle, brought: Any, script: str, query: str
):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    kettle.copies("ktr_orders", query, "orders", before=script)
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["commit_before_read"][0]["sql"] == [script]


def test_a_script_behind_the_output_runs_before_the_read_as_in_kettle(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    kettle.ktr(
        "ktr_orders",
        step("read", "TableInput", sql="SELECT 1 AS id"),
        step("write", "TableOutput", table="orders"),
        step("after", "ExecSQL", sql="DELETE FROM stage"),
        hops=(("read", "write"), ("write", "after")),
    )
    told = brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["commit_before_read"][0]["sql"] == ["DELETE FROM stage"]
    assert "Kettle executes it before the read" in reasons(told, "notes")


def test_truncate_becomes_part_of_the_publication_where_it_would_commit(
    mariadb_folder: Folder, command: Command
):
    kettle = Kettle(mariadb_folder)
    kettle.job("nightly")
    kettle.job("upkeep", "MAINTENANCE")
    kettle.table("nightly", "orders")
    kettle.upkeep("upkeep", "sweep", 1)
    before = "TRUNCATE TABLE orders"
    kettle.copies("ktr_orders", "SELECT 1 AS id", "orders", before=before, truncate="N")
    kettle.ktr("sweep", step("script", "ExecSQL", sql="TRUNCATE a; DELETE FROM b"))
    result = command("import-kettle", *ARGUMENTS, kettle.repository)
    assert result.code == 0, result.out + result.err
    (loaded,) = mariadb_folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["target"]["pre_sql"] == ["DELETE FROM orders"]
    assert mariadb_folder.values("jobs/upkeep.yaml")["steps"][0]["transaction"] == "false"


def test_fields_and_keys_of_the_output_are_kept(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    for name in ("orders", "customers"):
        kettle.table("nightly", name)
    fields = (
        "<fields><field><column_name>id</column_name><stream_name>n</stream_name></field></fields>"
    )
    kettle.copies("ktr_orders", "SELECT 1 AS n", "orders", specify_fields="Y", below=fields)
    lookup = (
        "<lookup><table>customers</table>"
        "<key><name>n</name><field>id</field><condition>=</condition></key>"
        "<value><name>id</name><rename>n</rename><update>N</update></value>"
        "<value><name>name</name><rename>t</rename><update>Y</update></value></lookup>"
    )
    kettle.ktr(
        "ktr_customers",
        step("read", "TableInput", sql="SELECT 1 AS n, 'x' AS t", limit="10"),
        step("write", "InsertUpdate", below=lookup),
        hops=(("read", "write"),),
    )
    brought()
    (orders,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert orders["sql"] == "SELECT `n` AS `id`\nFROM source\n"
    (customers,) = kettle.folder.values("tables/kettle/customers.yaml")["steps"]
    assert customers["sql"] == "SELECT `n` AS `id`, `t` AS `name`\nFROM source\nLIMIT 10\n"
    assert (customers["target"]["mode"], customers["target"]["key"]) == ("upsert", ["id"])


HANDLED = (
    "<step_error_handling><error><source_step>write</source_step>"
    "<target_step>metrics</target_step><is_enabled>Y</is_enabled></error></step_error_handling>"
)


def with_hop(path: Path, *names: str, enabled: str = "Y") -> None:
    """Add hops to a transformation, from the first step to each of the others."""
    start, *ends = names
    hops = "".join(
        f"<hop><from>{start}</from><to>{end}</to><enabled>{enabled}</enabled></hop>" for end in ends
    )
    path.write_text(path.read_text().replace("</order>", f"{hops}</order>"))


def test_a_script_whose_hops_are_disabled_does_not_run(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 1 AS n", "orders", before="DELETE FROM dst")
    with_hop(path, "script", "read", enabled="N")
    told = brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert "commit_before_read" not in loaded
    assert "pre_sql" not in loaded["target"]
    assert "left out, since Kettle does not start them" in reasons(told, "notes")
    assert "or they are not drawn): script" in reasons(told, "notes")


@pytest.mark.parametrize(
    ("hop", "drawn", "runs"),
    [
        ("", "Y", True),
        ("", "N", False),
        ("<enabled>N</enabled>", "Y", False),
        ("<enabled/>", "N", True),
    ],
)
def test_a_script_runs_with_a_hop_that_is_not_disabled_or_drawn_without_hops(
    kettle: Kettle, brought: Any, hop: str, drawn: str, *, runs: bool
):
    """Source: Kettle, TransMeta.getTransHopSteps and TransHopMeta."""
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 1 AS n", "orders", before="DELETE FROM dst")
    hops = f"<hop><from>Script</from><to>READ</to>{hop}</hop>" if hop else ""
    text = path.read_text().replace("</order>", f"{hops}</order>")
    script = text[text.index("<name>script") :]
    text = text.replace(script, script.replace("<draw>Y", f"<draw>{drawn}", 1))
    path.write_text(text)
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert ("commit_before_read" in loaded) is runs


def test_a_script_with_another_hop_that_is_enabled_runs(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 1 AS n", "orders", before="DELETE FROM dst")
    with_hop(path, "script", "read", enabled="N")
    with_hop(path, "script", "metrics")
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["commit_before_read"][0]["sql"] == ["DELETE FROM dst"]


@pytest.mark.parametrize(
    ("change", "hops", "reason"),
    [
        (("<sql>", "<copies>2</copies><sql>"), (), "read: it runs in 2 copies"),
        (("<table>", "<copies>${N}</copies><table>"), (), "write: it runs in ${N} copies"),
        (
            ("<sql>", "<distribute>Y</distribute><sql>"),
            ("read", "metrics"),
            "read: its rows are distributed to write, metrics",
        ),
        (
            ("<sql>", "<distribute/><sql>"),
            ("read", "metrics"),
            "read: its rows are distributed to write, metrics",
        ),
        (
            ("<sql>", "<distribute>N</distribute><sql>"),
            ("read", "a", "b"),
            "write: it gets rows of read, a, b",
        ),
        (
            ("<table>", "<partitioning><method>Mod</method></partitioning><table>"),
            (),
            "write: its rows are partitioned",
        ),
        (("<table>", "<cluster_schema>c</cluster_schema><table>"), (), "it runs on a cluster"),
        (("</transformation>", f"{HANDLED}</transformation>"), (), "handled by another step"),
    ],
)
def test_what_changes_which_rows_arrive_is_refused(
    kettle: Kettle, brought: Any, change: tuple[str, str], hops: tuple[str, ...], reason: str
):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 1 AS n", "orders")
    dummies = step("a", "Dummy") + step("b", "Dummy")
    text = path.read_text().replace("</transformation>", f"{dummies}</transformation>")
    path.write_text(text.replace(*change))
    if hops:
        with_hop(path, *hops)
        for end in hops[1:]:
            with_hop(path, end, "write" if end in "ab" else "row_count")
    assert reason in reasons(brought(code=1))


@pytest.mark.parametrize(
    ("kind", "hops", "reason"),
    [
        ("WriteToLog", (("read", "x"), ("x", "write")), None),
        ("Dummy", (("read", "x"), ("x", "write")), None),
        ("ExecSQL", (("x", "read"), ("read", "write")), None),
        ("StepsMetrics", (("read", "write"), ("write", "x")), None),
        ("ExecSQL", (("read", "x"), ("x", "write")), "x (ExecSQL): it does not pass the rows on"),
        ("SetVariable", (("read", "x"), ("x", "write")), "x (SetVariable): it does not pass"),
        ("StepsMetrics", (("read", "x"), ("x", "write")), "x (StepsMetrics): it does not pass"),
        ("StepsMetrics", (("read", "write"), ("x", "write")), "it does not pass the rows on"),
        ("ExecSQL", (("read", "write"), ("x", "write")), "it does not pass the rows on"),
    ],
)
def test_the_output_gets_the_rows_of_the_input_and_no_other(
    kettle: Kettle,
    brought: Any,
    kind: str,
    hops: tuple[tuple[str, str], ...],
    reason: str | None,
):
    """Source: Kettle, whose scripts and metrics make rows of their own."""
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    kettle.ktr(
        "ktr_orders",
        step("read", "TableInput", sql="SELECT 1 AS n"),
        step("x", kind, sql="DELETE FROM elsewhere"),
        step("write", "TableOutput", table="orders", truncate="Y"),
        hops=hops,
    )
    listed = reasons(brought(code=1 if reason else 0))
    assert (reason or "") in listed


SETTING = (
    "</database><attributes><attribute><code>{}</code><attribute>{}</attribute></attribute>"
    "</attributes>"
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            ("</database>", SETTING.format("PREFERRED_SCHEMA_NAME", "dwh")),
            "write: the connection KettleShop writes into the schema dwh; set the schema",
        ),
        (
            ("</database>", SETTING.format("SQL_CONNECT", "SET sql_mode=''")),
            "the connection KettleShop executes SQL when it opens",
        ),
        (
            ("</database>", SETTING.format("FORCE_IDENTIFIERS_TO_UPPERCASE", "Y")),
            "the connection KettleShop changes the case of names",
        ),
        (
            (
                "<name>KettleShop</name>",
                "<name>KETTLESHOP</name>" + SETTING.format("SQL_CONNECT", "SET x=1")[11:],
            ),
            "the connection KETTLESHOP executes SQL when it opens",
        ),
        (("SELECT 1 AS n", "SELECT '$[41,42]' AS n"), "$[41,42] stands for characters"),
        (
            ("<truncate>", "<specify_fields>Y</specify_fields><truncate>"),
            "write: a field or column of it has no name",
        ),
        (
            ("<info>", "<info><unique_connections>Y</unique_connections>"),
            "its steps share one transaction",
        ),
    ],
)
def test_settings_that_change_tables_sql_or_transactions_are_refused(
    kettle: Kettle, brought: Any, change: tuple[str, str], reason: str
):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    before = "INSERT INTO stage SELECT 1"
    path = kettle.copies("ktr_orders", "SELECT 1 AS n FROM stage", "orders", before=before)
    path.write_text(path.read_text().replace("SELECT 1 AS n FROM stage", "SELECT 1 AS n"))
    if "unique" in change[1]:
        path.write_text(path.read_text().replace("SELECT 1 AS n", "SELECT 1 AS n FROM stage"))
    text = path.read_text()
    path.write_text(text.replace(*change))
    assert text != path.read_text()
    assert reason in reasons(brought(code=1))


def test_rows_that_are_copied_to_a_step_that_only_counts_are_all_written(
    kettle: Kettle, brought: Any
):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 1 AS n", "orders")
    path.write_text(path.read_text().replace("<sql>", "<distribute>N</distribute><sql>"))
    with_hop(path, "read", "metrics")
    brought()
    assert kettle.folder.values("tables/kettle/orders.yaml")["steps"][0]["source"]["query"]


def test_a_script_of_one_statement_is_not_cut(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 1 AS n", "orders", before="BEGIN x; y; END")
    text = path.read_text().replace(
        "<sql>BEGIN", "<single_statement>Y</single_statement><sql>BEGIN"
    )
    path.write_text(text)
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["commit_before_read"][0]["sql"] == ["BEGIN x; y; END"]


@pytest.mark.parametrize("value", ["<{}>N</{}>", "<{}/>"])
@pytest.mark.parametrize("tag", ["replace_variables", "variables_active"])
def test_a_text_whose_variables_are_not_replaced_keeps_them(
    kettle: Kettle, brought: Any, tag: str, value: str
):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    before = tag == "replace_variables"
    query = "SELECT '%%TBL_NAME%%' AS n"
    path = kettle.copies("ktr_orders", query, "orders", before="DELETE FROM x -- %%A%%")
    path.write_text(path.read_text().replace(f"<{tag}>Y</{tag}>", value.format(tag, tag)))
    kettle.folder.configure(variables={"A": "a"})
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    if before:
        assert loaded["commit_before_read"][0]["sql"] == ["DELETE FROM x -- %%A%%"]
        assert loaded["source"]["query"] == "SELECT 'orders' AS n"
    else:
        assert loaded["source"]["query"] == query


def test_a_value_without_a_field_is_of_the_field_of_its_name(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    lookup = (
        "<lookup><table>orders</table>"
        "<key><name>id</name><field>id</field><condition>=</condition></key>"
        "<value><name>id</name><rename/></value><value><name>t</name></value></lookup>"
    )
    kettle.ktr(
        "ktr_orders",
        step("read", "TableInput", sql="SELECT 1 AS id, 'x' AS t"),
        step("write", "InsertUpdate", below=lookup),
        hops=(("read", "write"),),
    )
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["sql"] == "SELECT `id`, `t`\nFROM source\n"


def test_a_table_has_the_name_that_kettle_writes_in_sql(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    given = [("sales.daily", ""), ("daily", "x-y"), ('"Daily"', '"S"'), ("${TBL_NAME}", "s")]
    for n, (table, schema) in enumerate(given):
        kettle.table("nightly", f"t{n}")
        kettle.copies(f"ktr_t{n}", "SELECT 1 AS n", table, schema=schema)
    brought()
    steps = [kettle.folder.values(f"tables/kettle/t{n}.yaml")["steps"][0] for n in range(4)]
    named = [each["target"]["table"] for each in steps]
    assert named == ['"sales.daily"', "x-y.daily", '"S"."Daily"', "s.t3"]


def test_capitals_that_postgresql_would_change_are_refused():
    def named(schema: str, table: str) -> str:
        return quote_names("write", [schema, table], "postgresql")

    assert named("sales", '"Daily"') == 'sales."Daily"'
    for schema, table in (("", "Daily"), ("Sales", "daily")):
        with pytest.raises(UntranslatableError, match="unless it is quoted; write the name as"):
            named(schema, table)


def test_options_of_a_connection_are_noted_once(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    option = f"EXTRA_OPTION_{kettle.kind}.zeroDateTimeBehavior"
    for name in ("a", "b"):
        kettle.table("nightly", name)
        path = kettle.copies(f"ktr_{name}", "SELECT 1 AS n", name)
        setting = SETTING.format(option, "convertToNull")
        path.write_text(path.read_text().replace("</database>", setting))
    listed = reasons(brought(), "notes")
    assert listed.count("its options zeroDateTimeBehavior are not imported") == 1


@pytest.mark.parametrize(("access", "code"), [("Native", 0), ("JNDI", 1)])
def test_a_connection_by_jndi_has_no_address(
    mariadb_folder: Folder, command: Command, access: str, code: int
):
    kettle = Kettle(mariadb_folder)
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 1 AS n", "orders")
    path.write_text(path.read_text().replace("<server>", f"<access>{access}</access><server>"))
    result = command("import-kettle", *ARGUMENTS, kettle.repository)
    assert result.code == code, result.out + result.err
    assert ("unknown connection 'KettleShop'" in result.out) is (code == 1)


def test_a_key_that_kettle_would_not_insert_is_refused(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    lookup = (
        "<lookup><table>orders</table>"
        "<key><name>n</name><field>id</field><condition>=</condition></key>"
        "<value><name>name</name><rename>t</rename><update>Y</update></value></lookup>"
    )
    kettle.ktr(
        "ktr_orders",
        step("read", "TableInput", sql="SELECT 1 AS n, 'x' AS t"),
        step("write", "InsertUpdate", below=lookup),
        hops=(("read", "write"),),
    )
    assert "write: id is a key and not among the values" in reasons(brought(code=1))


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([step("turn", "DBJoin")], "turn (DBJoin)"),
        ([step("read", "TableInput", sql="SELECT 1")], "1 inputs and 0 outputs"),
        (
            [
                step("read", "TableInput", sql="SELECT 1"),
                step("write", "TableOutput", table="orders"),
            ],
            "no enabled hop",
        ),
        ([step("script", "ExecSQL", sql="SELECT 1")], "only scripts"),
    ],
)
def test_what_has_no_counterpart_becomes_a_stub_and_is_listed(
    kettle: Kettle, brought: Any, steps: list[str], reason: str
):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    kettle.ktr("ktr_orders", *steps)
    told = brought(code=1)
    assert reason in reasons(told)
    assert "t_etl_std_ktr_cfg, cfg_id 2" in reasons(told)
    table = load_project(kettle.folder.root).tables["kettle.orders"]
    assert table.release_state == "offline"
    assert "raise_error" in str(table.steps[0].sql)
    assert "# TODO" in kettle.folder.text("tables/kettle/orders.yaml")


def test_an_unknown_connection_is_listed_with_the_fix(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    kettle.copies("ktr_orders", "SELECT 1 AS one", "orders", truncate="Y")
    path = kettle.repository / "etl" / "ktr_orders.ktr"
    path.write_text(path.read_text().replace("KettleShop", "Erp").replace("<server>", "<server>h"))
    told = brought(code=1)
    assert "--map Erp=OURS" in reasons(told)
    assert "2be98afc" not in str(told)
    brought("--map", "Erp=shop", "--overwrite")
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert loaded["target"]["connection"] == "shop"


def test_variables_without_a_value_are_named_in_a_stub(
    kettle: Kettle, brought: Any, logdriven: Any
):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    kettle.copies("ktr_orders", "SELECT '${AREA}' AS area", "${TBL_NAME}")
    assert "the variables AREA have no value; set them in `variables`" in reasons(brought(code=1))
    table = load_project(kettle.folder.root).tables["kettle.orders"]
    assert table.release_state == "offline"
    assert "AREA" in str(table.steps[0].sql)
    assert logdriven("validate", "--project", kettle.folder.root).code == 0


def test_a_variable_of_the_project_is_used(kettle: Kettle, brought: Any, logdriven: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    kettle.copies("ktr_orders", "SELECT '${AREA}' AS area", "${TBL_NAME}")
    kettle.folder.configure(variables={"AREA": "north"})
    brought()
    (step,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert step["source"]["query"].strip() == "SELECT '${AREA}' AS area"
    assert logdriven("validate", "--project", kettle.folder.root).code == 0


def test_defaults_of_named_parameters_are_variables_of_the_table(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT '${ETL_DATE}' AS a, '${X}' AS b, '%%E%%'", "orders")
    given = {"ETL_DATE": "2020-10-19", "X": "007", "E": "", "UNUSED": "1", "Y": "${X}"}
    texts = "".join(
        f"<parameter><name>{name}</name><default_value>{value}</default_value></parameter>"
        for name, value in given.items()
    )
    text = path.read_text().replace("</info>", f"<parameters>{texts}</parameters></info>")
    path.write_text(text)
    told = brought()
    notes = "\n".join(each["reason"] for each in told["notes"])
    assert "which a job may set to others: ETL_DATE='2020-10-19'" in notes
    table = load_project(kettle.folder.root).tables["kettle.orders"]
    assert dict(table.variables) == {"ETL_DATE": "2020-10-19", "X": "007", "E": ""}
    path.write_text(text.replace("${X}' AS", "${Y}' AS"))
    assert "the variables Y have no value" in reasons(brought("--overwrite", code=1))


def test_entities_are_refused(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 1 AS one", "orders")
    declared = "?><!DOCTYPE t [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><transformation>"
    path.write_text(path.read_text().replace("?><transformation>", declared))
    assert "declares a document type" in reasons(brought(code=1))


@pytest.mark.parametrize(
    "content",
    [
        b"<?xml version='1.0' encoding='no-such'?><transformation/>",
        b"<?xml version='1.0' encoding='utf-7'?><transformation/>",
        b"<?xml version='1.0' encoding='shift_jis'?><transformation>\x83</transformation>",
        b"\xff\xfe<\x00",
        b"",
        b"<transformation>" + b"<a>" * 50_000,
        "<transformation><step><name>r</name><type>TableInput</type><limit>²</limit></step>"
        "</transformation>".encode(),
        b"<transformation><step><name>r</name><type>TableInput</type><limit>"
        + b"9" * 5000
        + b"</limit></step></transformation>",
    ],
)
def test_a_transformation_that_cannot_be_read_is_a_stub_and_the_rest_is_imported(
    kettle: Kettle, brought: Any, content: bytes
):
    kettle.job("nightly")
    for name in ("orders", "customers"):
        kettle.table("nightly", name)
        path = kettle.copies(f"ktr_{name}", "SELECT 1 AS one", name)
        if name == "orders":
            path.write_bytes(content)
    assert "t_etl_std_ktr_cfg" in reasons(brought(code=1))
    project = load_project(kettle.folder.root)
    assert project.tables["kettle.orders"].release_state == "offline"
    assert project.tables["kettle.customers"].release_state == "online"


def test_encodings_of_xml_are_read(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    path = kettle.copies("ktr_orders", "SELECT 'Grüße' AS v", "orders")
    path.write_bytes(path.read_text().replace("'UTF-8'", "'ISO-8859-1'").encode("latin-1"))
    brought()
    (loaded,) = kettle.folder.values("tables/kettle/orders.yaml")["steps"]
    assert "Grüße" in loaded["source"]["query"]


def test_numbers_that_are_none_are_listed(kettle: Kettle, brought: Any):
    kettle.job("nightly", retries="²")  # type: ignore[arg-type]
    kettle.table("nightly", "orders")
    kettle.copies("ktr_orders", "SELECT 1 AS one", "orders")
    assert "not a whole number; 3 is used instead" in reasons(brought(code=1))
    assert load_project(kettle.folder.root).jobs["nightly"].retries == 2


def test_a_maintenance_job_keeps_its_order_and_gaps(kettle: Kettle, brought: Any):
    kettle.job("upkeep", "MAINTENANCE", retries=2)
    kettle.ktr("purge", step("script", "ExecSQL", sql="DELETE FROM a; DELETE FROM b"))
    kettle.ktr("count", step("script", "ExecSQL", sql="DELETE FROM c"))
    kettle.upkeep("upkeep", "count", 20, enabled="N")
    kettle.upkeep("upkeep", "purge", 10)
    kettle.upkeep("upkeep", "nowhere", 30)
    told = brought(code=1)
    assert "the repository has no etl/nowhere.ktr" in reasons(told)
    job = kettle.folder.values("jobs/upkeep.yaml")
    first, second, third = job["steps"]
    assert (job["type"], job["retries"], job["release_state"]) == ("maintenance", "1", "offline")
    assert first == {
        "exec_order": "10",
        "step": "purge",
        "connection": "shop",
        "sql": ["DELETE FROM a", "DELETE FROM b"],
    }
    assert (second["exec_order"], second["enabled"]) == ("20", "false")
    assert "raise_error" in third["sql"]


def test_everything_that_does_not_fit_is_listed(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.job("nightly")
    kettle.job("strange", "OTHER")
    kettle.job("empty")
    kettle.table("nightly", "orders")
    kettle.table("nightly", "orders", ktr="second")
    kettle.table("nowhere", "lost")
    kettle.depends("orders", "never")
    kettle.depends("nobody", "orders")
    kettle.copies("ktr_orders", "SELECT 1 AS one", "orders")
    told = reasons(brought(code=1))
    for part in (
        "the job is defined twice",
        "unknown kjb_type OTHER",
        "the job has no tables",
        "only one transformation can write a table",
        "has no job nowhere",
        "never has no transformation",
        "no transformation writes nobody",
    ):
        assert part in told
    assert kettle.folder.tables == ["kettle.orders"]


def test_a_table_without_upstreams_is_a_root_and_reported(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    kettle.copies("ktr_orders", "SELECT 1 AS one", "orders")
    assert "Kettle never runs a table without a row" in reasons(brought(), "notes")


def test_the_same_import_again_changes_nothing(kettle: Kettle, brought: Any):
    kettle.job("nightly job")
    kettle.table("nightly job", "dw.orders")
    kettle.copies("ktr_dw.orders", "SELECT 1 AS one", "orders")
    told = brought()
    assert told["written"] == ["tables/dw/orders.yaml", "jobs/nightly_job.yaml"]
    again = brought("--now", "2022-05-01")
    assert (again["written"], again["unchanged"]) == ([], told["written"])


def test_a_database_that_is_no_kettle_is_refused(folder: Folder, command: Command):
    folder.execute("CREATE TABLE t (a INT)")
    result = command("import-kettle", "--connection", "shop")
    assert (result.code, "no table t_etl_kjb_cfg" in result.err) == (2, True)


def test_without_a_repository_every_table_is_a_stub(kettle: Kettle, command: Command):
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    result = command("import-kettle", "--connection", "shop")
    assert (result.code, "no --repository was given" in result.out) == (1, True)
    assert kettle.folder.tables == ["kettle.orders"]


@pytest.mark.sampled
def test_what_kettle_did_is_done_on_every_database(
    server_folder: Folder, command: Command, spark: Any
):
    server_folder.spark = spark
    kettle = Kettle(server_folder)
    server_folder.execute(
        "CREATE TABLE t_etl_tbl_log (a INT)",
        "CREATE TABLE s (id INT, v VARCHAR(9))",
        "INSERT INTO s VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE ods_s (id INT, v VARCHAR(9))",
        "INSERT INTO ods_s VALUES (9, 'old')",
        "CREATE TABLE dw_s (total BIGINT)",
        "INSERT INTO dw_s VALUES (7)",
    )
    kettle.job("nightly")
    kettle.table("nightly", "ods_s")
    kettle.table("nightly", "dw_s")
    kettle.depends("ods_s", "s", is_etl="N")
    kettle.depends("dw_s", "ods_s")
    kettle.copies("ktr_ods_s", "SELECT id, v FROM s;", "ods_s")
    query = "SELECT id AS total FROM ods_s WHERE id = 2"
    kettle.copies("ktr_dw_s", query, "dw_s", before="DELETE FROM dw_s;", truncate="N")
    result = command("import-kettle", *ARGUMENTS, kettle.repository, *maps(server_folder))
    assert result.code == 0, result.out + result.err
    assert "t_etl_tbl_log" in result.out
    for day in (0, 1):
        server_folder.run_all(days=day)
        assert sorted(rows(server_folder.url, "SELECT id, v FROM ods_s")) == [(1, "a"), (2, "b")]
        assert rows(server_folder.url, "SELECT total FROM dw_s") == [(2,)]


@pytest.mark.sampled
def test_yesterdays_rows_are_not_loaded_where_a_script_stages_todays_k19(
    server_folder: Folder, command: Command, spark: Any
):
    server_folder.spark = spark
    kettle = Kettle(server_folder)
    server_folder.execute(
        "CREATE TABLE live (id INT)",
        "INSERT INTO live VALUES (2)",
        "CREATE TABLE stage (id INT)",
        "INSERT INTO stage VALUES (1)",
    )
    kettle.job("nightly")
    kettle.table("nightly", "orders")
    before = "DELETE FROM stage; INSERT INTO stage SELECT id FROM live"
    kettle.copies("ktr_orders", "SELECT id FROM stage", "orders", before=before)
    assert command("import-kettle", *ARGUMENTS, kettle.repository, *maps(server_folder)).code == 0
    server_folder.run_all()
    assert rows(server_folder.url, "SELECT id FROM orders") == [(2,)]


def upsert(table: str, *values: str, **flags: str) -> str:
    """An Insert / update by `id`; values are such as `name:Y`, with the flag of the update."""
    columns = "".join(
        f"<value><name>{name}</name><rename>{name}</rename><update>{update}</update></value>"
        for name, update in (each.split(":") for each in values)
    )
    lookup = (
        f"<lookup><table>{table}</table><key><name>id</name><field>id</field>"
        f"<condition>=</condition></key>{columns}</lookup>"
    )
    return step("write", "InsertUpdate", below=lookup, **flags)


@pytest.mark.sampled
def test_what_kettle_inserts_and_never_updates_is_kept(
    server_folder: Folder, command: Command, spark: Any
):
    server_folder.spark = spark
    kettle = Kettle(server_folder)
    server_folder.execute(
        "CREATE TABLE s (id INT, name VARCHAR(9), made INT)",
        "INSERT INTO s VALUES (1, 'new', 8), (2, 'b', 9), (3, '', 9)",
        "CREATE TABLE kept (id INT, name VARCHAR(9), made INT)",
        "INSERT INTO kept VALUES (1, 'old', NULL)",
        "CREATE TABLE added (id INT, name VARCHAR(9))",
        "INSERT INTO added VALUES (1, 'old')",
        "CREATE TABLE names (tk BIGINT, name VARCHAR(9))",
        "INSERT INTO names VALUES (5, 'b')",
    )
    kettle.job("nightly")
    for table in ("kept", "added", "names"):
        kettle.table("nightly", table)
    read = step("read", "TableInput", sql="SELECT id, name, made FROM s")
    hops = (("read", "write"),)
    kettle.ktr("ktr_kept", read, upsert("kept", "id:N", "name:Y", "made:N"), hops=hops)
    bypassed = upsert("added", "id:Y", "name:Y", update_bypassed="Y")
    kettle.ktr("ktr_added", read, bypassed, hops=hops)
    keys = (
        "<fields><key><name>name</name><lookup>name</lookup></key>"
        "<return><name>tk</name><creation_method>tablemax</creation_method></return></fields>"
    )
    combination = step("write", "CombinationLookup", table="names", below=keys)
    kettle.ktr("ktr_names", read, combination, hops=hops)
    assert command("import-kettle", *ARGUMENTS, kettle.repository, *maps(server_folder)).code == 0
    for day in (0, 1):
        server_folder.run_all(days=day)
        found = {table: rows(server_folder.url, f"SELECT * FROM {table}") for table in NAMES}
        found = {table: sorted(row[: NAMES[table]] for row in found[table]) for table in NAMES}
        assert found["kept"] == [(1, "new", None), (2, "b", 9), (3, "", 9)]
        assert found["added"] == [(1, "old"), (2, "b"), (3, "")]
        assert found["names"] == [(5, "b"), (6, None), (7, "new")]


NAMES = {"kept": 3, "added": 2, "names": 2}
"""Number of columns of each table without `_window_start`."""


@pytest.mark.sampled
def test_parameters_of_a_query_come_from_the_row_of_another_one(
    server_folder: Folder, command: Command, spark: Any
):
    """Source: Kettle, TableInput.readStartDate."""
    server_folder.spark = spark
    kettle = Kettle(server_folder)
    is_postgres = server_folder.url.get_backend_name() == "postgresql"
    moment = "TIMESTAMP" if is_postgres else "DATETIME"
    server_folder.execute(
        f"CREATE TABLE s (id INT, name VARCHAR(9), made {moment})",
        "INSERT INTO s VALUES (1, '?', '2026-11-01 08:00:00'), (2, '?', '2026-11-01 09:00:00')",
        "INSERT INTO s VALUES (3, '?', '2026-11-01 10:00:00'), (4, 'x', '2026-11-01 09:00:00')",
        f"CREATE TABLE times (last_load {moment}, current_load {moment})",
        "INSERT INTO times VALUES ('2026-11-01 09:00:00', '2026-11-01 10:00:00')",
    )
    query = "SELECT id FROM s -- why?\nWHERE name = '?' AND ? <= made AND made < ?"
    times = step("times", "TableInput", sql="SELECT last_load, current_load FROM times")
    read = step("read", "TableInput", sql=query, lookup="times")
    write = step("write", "TableOutput", table="loaded", truncate="Y")
    kettle.ktr("ktr_loaded", times, read, write, hops=(("times", "read"), ("read", "write")))
    kettle.job("nightly")
    kettle.table("nightly", "loaded")
    result = command("import-kettle", *ARGUMENTS, kettle.repository, *maps(server_folder))
    if server_folder.url.get_backend_name() == "sqlite":
        assert "how its database converts parameters is not known" in result.out
        return
    assert result.code == 0
    server_folder.run_all()
    assert rows(server_folder.url, "SELECT id FROM loaded") == [(2,)]
    for rule, problem in (
        ("DELETE FROM times", "no rows"),
        ("INSERT INTO times VALUES (NULL, '2026-11-01 10:00:00')", "parameter 1 is NULL"),
        ("INSERT INTO times VALUES ('2026-11-01 10:00:00', NULL)", "must read one row"),
    ):
        server_folder.execute(rule)
        (failed, *_) = [
            each.error
            for each in server_folder.catch_up(now=NOW + timedelta(days=1))
            if isinstance(each, WindowFailed)
        ]
        assert problem in failed


def test_parameters_of_other_steps_or_another_number_are_refused(kettle: Kettle, brought: Any):
    kettle.job("nightly")
    for table, before, query in (
        ("count", step("times", "TableInput", sql="SELECT a, b FROM t"), "SELECT 1 WHERE x > ?"),
        ("none", step("times", "TableInput", sql="SELECT a FROM t"), "SELECT 1 WHERE x > '?'"),
        ("other", step("times", "RowGenerator"), "SELECT 1 WHERE x > ?"),
    ):
        kettle.table("nightly", table)
        read = step("read", "TableInput", sql=query, lookup="times")
        hops = (("times", "read"), ("read", "write"))
        kettle.ktr(f"ktr_{table}", before, read, step("write", "TableOutput", table="t"), hops=hops)
    found = reasons(brought(code=1))
    assert "it has 1 parameters, and times has 2 columns" in found
    assert "it has 0 parameters" in found
    assert "which must be a Table input" in found
