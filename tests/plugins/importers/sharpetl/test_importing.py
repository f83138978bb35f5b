"""Tables from Sharp ETL's workflow files."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.plugins.importers.sharpetl.sources import as_glob
from tests.plugins.importers.conftest import Folder
from tests.plugins.importers.kettle.world import rows
from tests.plugins.importers.sharpetl.conftest import HEAD, listed

EXAMPLES = Path(__file__).parent
STEP = """
    -- step=1
    -- source=temp
    -- target=csv
    --  filePath=out
    SELECT 1 AS one;
"""


def header(lines: str, head: str = HEAD) -> str:
    return head + textwrap.indent(textwrap.dedent(lines).strip("\n"), "    ") + "\n" + STEP


def step(folder: Folder, n: int = -1) -> dict[str, Any]:
    found: dict[str, Any] = folder.values("tables/w.yaml")["steps"][n]
    return found


def test_the_headers_of_a_workflow(folder: Folder, brought: Any):
    other = header("", HEAD.replace("=w", "=dim.user"))
    lines = """
        --  dependsOn=dim.user
        --  comment=all of it
        --  timeout=3600
        --  defaultStart=20220203
        --  stopScheduleWhenFail=true
        --  options
        --   projectName=abc
    """
    brought(header(lines), other.replace("out", "out2"))
    values = folder.values("tables/w.yaml")
    assert values | {"steps": []} == {
        "table": "w",
        "description": "all of it",
        "tags": {"project": "abc"},
        "incremental_type": "time_window",
        "period": "1 day",
        "default_start": "2022-02-03",
        "timeout": "3600 s",
        "depends_on": [{"table": "dim.user", "read": "none"}],
        "steps": [],
    }


def test_a_full_load_that_names_no_window_is_a_full_table(folder: Folder, brought: Any):
    told = brought(header("").replace("incremental", "full"))
    assert folder.values("tables/w.yaml")["incremental_type"] == "full"
    (note,) = [each for each in told["notes"] if each["item"] == "loadType=full"]
    assert "only the newest window runs" in note["reason"]


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("SELECT 1", "SELECT '${DATA_RANGE_START}'", "DATA_RANGE_START"),
        ("SELECT 1", "SELECT ${YEAR}", "YEAR"),
        ("--  filePath=out", "--  filePath=out\n    --  sep=${DAY}", "DAY"),
    ],
)
def test_a_full_load_of_a_window_runs_each_missed_window(
    folder: Folder, brought: Any, old: str, new: str, name: str
):
    """Sharp ETL's planner ignores loadType."""
    told = brought(header("").replace("incremental", "full").replace(old, new))
    assert folder.values("tables/w.yaml")["incremental_type"] == "time_window"
    (note,) = [each for each in told["notes"] if each["item"] == "loadType=full"]
    assert f"its texts contain {name}: each missed window runs" in note["reason"]


def test_keys_it_does_not_know_are_listed_with_their_lines(folder: Folder, brought: Any):
    text = header("--  dateRangeInterval=5").replace(
        "    SELECT", "    -- persist=DISK_ONLY\n    -- conf\n    --  a.b=c\n    SELECT"
    )
    told = brought(text, code=1)
    assert listed(told) == [
        ("5", "dateRangeInterval=5"),
        ("11", "persist=DISK_ONLY"),
        ("13", "conf a.b=c"),
    ]
    assert folder.tables == ["w"]


def test_digits_that_are_no_number_are_listed(folder: Folder, brought: Any):
    told = brought(header("--  timeout=²").replace("period=1440", "period=٣"), code=1)
    assert {"period=٣", "timeout=²"} <= {item for _, item in listed(told)}


@pytest.mark.parametrize("kind", ["temp", "do_nothing", "console", "variables"])
def test_headers_that_a_target_does_not_know_are_listed(folder: Folder, brought: Any, kind: str):
    text = (
        header("").replace("target=csv", f"target={kind}").replace("filePath=out", "persisted=yes")
    )
    assert ("10", "persisted=yes") in listed(brought(text, code=1))


KEPT = "SELECT '${DATA_RANGE_START}' AS day"


def overwriting(text: str, query: str, kind: str = "hive") -> str:
    """The workflow with a step that overwrites a table of Spark's catalog."""
    text = text.replace("target=csv", f"target={kind}\n    --  dbName=ods")
    text = text.replace("filePath=out", "tableName=orders\n    -- writeMode=overwrite")
    return re.sub(r"SELECT[^;]*", query, text)


@pytest.mark.parametrize("kind", ["hive", "spark_sql", "delta_lake"])
def test_a_table_of_sparks_catalog_becomes_one_of_iceberg_and_is_listed(
    folder: Folder, brought: Any, kind: str
):
    told = brought(overwriting(header(""), KEPT, kind))
    assert step(folder)["target"] == {
        "type": "iceberg",
        "name": "ods.orders",
        "mode": "overwrite_window",
    }
    found = [(each["item"], each["reason"]) for each in told["notes"]]
    assert [item for item, _ in found] == [f"{kind} ods.orders", "writeMode=overwrite"]
    assert "it is an Iceberg table" in found[0][1]
    assert "it replaces the rows of the window; Sharp ETL replaces the partitions" in found[1][1]
    assert "an empty result replaces them, too" in found[1][1]


@pytest.mark.parametrize(
    ("query", "mode"),
    [
        (KEPT, "overwrite_window"),
        ("SELECT 1 AS n, substr('${DATA_RANGE_START}', 1, 10) AS day", "overwrite_window"),
        ("SELECT * FROM (SELECT 1 AS n, '${YEAR}' AS year) AS x", "overwrite_window"),
        (f"{KEPT} UNION ALL SELECT '${{DATA_RANGE_END}}'", "overwrite_window"),
        (f"{KEPT} UNION ALL SELECT 'x' AS day", "overwrite"),
        ("SELECT 1 AS n WHERE '${DATA_RANGE_START}' > '2022'", "overwrite"),
        ("SELECT '${JOB_ID}' AS job", "overwrite"),
        ("SELECT concat('${YEAR}', n) AS day FROM (SELECT 1 AS n) AS x", "overwrite"),
        ("SELECT 1 AS n", "overwrite"),
    ],
)
def test_rows_that_overwrite_replaces_must_follow_from_the_file(
    folder: Folder, brought: Any, query: str, mode: str
):
    """Source: Sharp ETL, HiveDataSource: INSERT OVERWRITE of partitions, or of the whole table."""
    told = brought(overwriting(header(""), query), code=int(mode == "overwrite"))
    assert step(folder)["target"]["mode"] == mode
    if mode == "overwrite":
        assert "may replace the whole table or some partitions" in told["untranslated"][0]["reason"]
        assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_overwrite_of_a_temporary_table_asks_the_step_that_makes_it(folder: Folder, brought: Any):
    temp = overwriting(header(""), KEPT, "temp").replace("-- writeMode=overwrite", "")
    last = """
    -- step=2
    -- source=temp
    -- target=hive
    --  dbName=dw
    --  tableName=t
    -- writeMode=overwrite
    SELECT * FROM orders;
    """
    brought(temp.rstrip() + last)
    assert step(folder)["target"]["mode"] == "overwrite_window"


def appending(name: str, query: str, mode: str = "append", period: int = 1440) -> str:
    head = HEAD.replace("=w", f"={name}").replace("1440", str(period))
    lines = f"""
    -- step=1
    -- source=h2
    --  dbName=shop
    -- target=h2
    --  dbName=shop
    --  tableName=sales
    -- writeMode={mode}
    {query};
    """
    return head + lines


ONLINE = "SELECT id, name FROM online WHERE day >= '${DATA_RANGE_START}'"
STORES = "SELECT name, id FROM stores WHERE day < '${DATA_RANGE_END}'"


def test_workflows_that_append_to_one_table_are_steps_of_one(
    folder: Folder, brought: Any, spark: Any
):
    folder.spark = spark
    folder.execute(
        "CREATE TABLE online (id BIGINT, name VARCHAR(9), day VARCHAR(19))",
        "CREATE TABLE stores (id BIGINT, name VARCHAR(9), day VARCHAR(19))",
        "CREATE TABLE sales (id BIGINT, name VARCHAR(9))",
        "INSERT INTO online VALUES (1, 'a', '2022-01-09 00:00:00')",
        "INSERT INTO online VALUES (2, 'b', '2022-01-09 10:00:00')",
        "INSERT INTO stores VALUES (1, 'a', '2022-01-09 00:00:00')",
        "INSERT INTO stores VALUES (7, NULL, '2022-01-09 00:00:00')",
        "INSERT INTO sales VALUES (0, 'old')",
    )
    after = header("--  dependsOn=dim.stores", HEAD.replace("=w", "=z"))
    start = "logDrivenType=timewindow\n    --  defaultStart=20220109"
    texts = (appending("online", ONLINE), appending("dim.stores", STORES), after)
    told = brought(*(text.replace("logDrivenType=timewindow", start) for text in texts))
    assert "append to the same one" in str(told["notes"])
    assert folder.tables == ["online", "z"]
    assert folder.values("tables/z.yaml")["depends_on"][0]["table"] == "online"
    folder.run_all()
    found = rows(folder.url, "SELECT id, name FROM sales ORDER BY id, name")
    assert found == [(0, "old"), (1, "a"), (1, "a"), (2, "b"), (7, None)]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (appending("z", STORES, period=60), "with another period"),
        (appending("z", STORES) + STEP.replace("step=1", "step=2"), "to others as well"),
        (
            appending("z", STORES).replace("loadType=inc", "dependsOn=y\n    --  loadType=inc"),
            "depends_on",
        ),
    ],
)
def test_workflows_of_one_table_with_other_settings_are_stubs(
    folder: Folder, brought: Any, other: str, problem: str
):
    told = brought(appending("a", ONLINE), other, code=1)
    assert problem in str(told["untranslated"])
    tables = load_project(folder.root).tables
    assert tables["z"].release_state == "offline"
    assert tables["a"].release_state == "online"


def test_the_second_of_two_workflows_with_one_target_is_a_stub(folder: Folder, brought: Any):
    other = header("", HEAD.replace("workflow=w", "workflow=z"))
    told = brought(header(""), other, code=1)
    reason = told["untranslated"][0]["reason"]
    assert "w.step_1 writes to the same target; read both in steps of one table" in reason
    project = load_project(folder.root)
    assert sorted(project.tables) == ["w", "z"]
    assert project.tables["z"].release_state == "offline"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (header("--  loadType"), 5, "this is not a header of a workflow"),
        (HEAD, 4, "the workflow has no step"),
        (HEAD + "-- step=1\n-- source=temp\nSELECT 1", 7, "expected `-- target=`"),
        (HEAD + "-- step=1\n-- source=temp\n", 5, "step 1 has no target"),
        (HEAD + "-- step=1\n-- target=csv\n--  filePath\nSELECT 1", 7, "a header without a value"),
        ("-- workflow=\n" + STEP, 1, "expected `-- workflow=name`"),
    ],
)
def test_what_is_malformed_is_an_error_with_its_line(
    folder: Folder, brought: Any, text: str, line: int, problem: str
):
    text = "\n".join(
        part.strip() if part.strip().startswith("-- ") else part for part in text.splitlines()
    )
    told = brought(text, code=2)
    assert f"w0.sql:{line}: {problem}" in told
    assert folder.files() == []


def test_a_name_that_is_given_twice_is_an_error_that_names_both_files(folder: Folder, brought: Any):
    told = brought(header(""), header(""), code=2)
    assert "w1.sql:1: workflow: workflow w is defined twice, first in" in told
    assert "w0.sql" in told
    assert folder.files() == []


def test_temporary_tables_are_steps_and_constants_are_variables(folder: Folder, brought: Any):
    brought(
        HEAD
        + """
    -- step=1
    -- target=variables
    SELECT 'eu' AS `AREA`,
           from_unixtime(
             unix_timestamp('${DATA_RANGE_START}', 'yyyy-MM-dd HH:mm:ss'), 'yyyy') AS `YEAR`,
           date_format('${DATA_RANGE_END}', 'yyyyMMdd') AS `ENDS`;

    -- step=read all
    -- target=temp
    --  tableName=`643e`
    SELECT '${AREA}' AS area, '${ENDS}' AS ends;

    -- step=write
    -- target=csv
    --  filePath=out
    -- throwExceptionIfEmpty=true
    -- skipFollowStepWhenEmpty=true
    SELECT * FROM `643e` WHERE '${YEAR}' > '2000';
    """
    )
    values = folder.values("tables/w.yaml")
    assert values["variables"] == {"AREA": "eu"}
    first, last = values["steps"]
    assert first == {
        "step": "step_643e",
        "sql": "SELECT '${AREA}' AS area, (date_format('${DATA_RANGE_END}', 'yyyyMMdd')) AS ends",
    }
    assert last["sql"] == "SELECT * FROM `step_643e` AS `643e` WHERE '${YEAR}' > '2000'"
    assert last["on_empty"] == "skip_following_steps"
    assert values["checks"][0]["check"] == "write_is_not_empty"


def test_a_step_runs_for_each_row_of_an_earlier_one(folder: Folder, brought: Any):
    brought(
        HEAD
        + """
    -- step=1
    -- target=temp
    --  tableName=names
    SELECT 'a' AS table_name
    -- step=2
    -- target=csv
    --  filePath=out
    -- loopOver=names
    SELECT '${table_name}' AS name
    """
    )
    assert step(folder)["loop_over"] == "names"
    assert step(folder)["sql"] == "SELECT '${row_table_name}' AS name"


def test_files_that_are_deleted_are_loaded_once_each(folder: Folder, brought: Any):
    brought(
        HEAD
        + r"""
    -- step=1
    -- source=csv
    --  fileDir=/in
    --  fileNamePattern=()(orders_\d{4}\.csv)()
    --  sep=|
    --  deleteSource=true
    -- target=csv
    --  filePath=out
    -- throwExceptionIfEmpty=true
    """
    )
    values = folder.values("tables/w.yaml")
    assert values["incremental_type"] == "files"
    source = step(folder)["source"]
    assert (source["path"], source["sep"]) == ("/in/orders_[0-9][0-9][0-9][0-9].csv", "|")
    assert (source["on_empty"], source["after_success"]) == ("fail", "delete")
    assert "file_name" in step(folder)["sql"]


@pytest.mark.parametrize(
    ("pattern", "glob", "exact"),
    [
        (r"a_\d{2}\.txt", "a_[0-9][0-9].txt", True),
        (".*", "*", True),
        (r"()(\w*_1.txt)()", "*_1?txt", False),
        (r"(a|b)\.csv", "", False),
    ],
)
def test_patterns_of_file_names_become_globs(*, pattern: str, glob: str, exact: bool):
    found = as_glob(pattern)
    assert found[1] is exact
    assert not glob or found[0] == glob


def test_upstreams_make_batches(folder: Folder, brought: Any):
    ups = header("", HEAD.replace("=w", "=ups")).replace("out", "out2")
    text = header("--  upstream=ups").replace("timewindow", "upstream")
    brought(text, ups)
    values = folder.values("tables/w.yaml")
    assert values["incremental_type"] == "upstream"
    assert values["depends_on"] == [{"table": "ups"}]


def test_the_id_of_an_upstream_job_keeps_a_table_offline(folder: Folder, brought: Any):
    ups = header("", HEAD.replace("=w", "=ups")).replace("out", "out2")
    text = header("--  upstream=ups").replace("timewindow", "upstream")
    told = brought(text.replace("1 AS one", "'${DATA_RANGE_START}' AS one"), ups, code=1)
    assert listed(told) == [("5", "upstream=ups")]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_quality_rules_are_kept(folder: Folder, brought: Any):
    folder.write(
        "quality-check.yaml",
        """
        - dataCheckType: negative check
          rule: $column < 0
          errorType: warn
        """,
    )
    text = (
        HEAD
        + """
    -- step=1
    -- source=temp
    --  options
    --   idColumn=id
    --   sortColumn=at
    --   column.phone.qualityCheckRules=power null check(error), negative check
    --   column.value.qualityCheckRules=unheard check
    -- target=csv
    --  filePath=out
    SELECT 1 AS id, 2 AS at, 3 AS phone, 4 AS value
    """
    )
    told = brought(text, code=1, options=("--quality-check", folder.root / "quality-check.yaml"))
    assert listed(told) == [("12", "unheard check")]
    quality = step(folder)["quality"]
    assert (quality["id"], quality["deduplicate_order_by"]) == (["id"], "at desc")
    assert quality["columns"]["phone"] == [
        "power null check",
        {"rule": "negative check", "fails_when": ":column < 0", "level": "warn"},
    ]


def test_notifications_go_to_recipients_of_the_project(folder: Folder, brought: Any):
    mail = {"type": "email", "server": "smtp.x", "from": "etl@x", "to": ["a@q.com"]}
    folder.configure(recipients={"ops": mail})
    lines = """
        --  notify
        --   notifyType=email
        --   recipients=a@q.com,b@q.com
        --   notifyCondition=ALWAYS
    """
    told = brought(header(lines), code=1)
    assert listed(told) == [("6", "notify b@q.com")]
    assert folder.values("tables/w.yaml")["notify"] == [{"to": ["ops"], "on": "always"}]


def test_connections_are_those_of_the_project(folder: Folder, brought: Any):
    text = (
        HEAD
        + """
    -- step=1
    -- source=mysql
    --  dbName=sales
    --  tableName=orders
    -- target=postgres
    --  dbName=dw
    --  tableName=ods.orders
    -- writeMode=append
    SELECT * FROM orders WHERE at >= '${DATA_RANGE_START}'
    """
    )
    told = brought(text, code=1)
    assert "--map sales=OURS" in told["untranslated"][0]["reason"]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"
    assert "#     SELECT * FROM orders" in folder.text("tables/w.yaml")
    brought(text, options=("--overwrite", "--map", "sales=shop", "--map", "dw=shop"))
    assert step(folder)["source"] == {
        "type": "jdbc",
        "connection": "shop",
        "query": "SELECT * FROM orders WHERE at >= '${DATA_RANGE_START}'",
    }
    assert step(folder)["target"]["table"] == "ods.orders"


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("excel", "write `type: excel` with the path"),
        ("sftp", "copy the files before a window runs"),
        ("streaming_kafka", "incremental_type kafka_offset"),
        ("ddl", "connections are in logdriven.yaml"),
        ("pmml", "register the function in Python"),
    ],
)
def test_a_source_that_is_not_read_here_is_listed_with_the_shortest_way(
    brought: Any, source: str, way: str
):
    told = brought(header("").replace("source=temp", f"source={source}"), code=1)
    reason = told["untranslated"][0]["reason"]
    assert reason.startswith(f"{source} cannot be read here: ")
    assert way in reason


LOAD = """
    -- step=2
    -- source=transformation
    --  className=com.github.sharpdata.sharpetl.spark.transformation.JdbcLoadTransformer
    --  methodName=transform
    --   businessUpdateTime=updated_at
    --   currentDb=shop
    --   currentDbType=postgres
    --   currentTable=dwd.orders
    --   currentTableColumnsAndType={"id":"int","updated_at":"timestamp"}
    --   primaryFields=id
    --   slowChanging=false
    --   updateTable=selected
    --   updateType=incremental
    --  transformerType=object
    -- target=do_nothing
"""
SELECTED = """
    -- step=1
    -- target=temp
    --  tableName=selected
    SELECT 1 AS id, '${DATA_RANGE_START}' AS updated_at
"""


def test_a_load_by_key_is_an_upsert_to_review(folder: Folder, brought: Any):
    """Source: Sharp ETL, JdbcLoadTransformer, execNoSCIncremental."""
    told = brought(HEAD + SELECTED + LOAD, code=1)
    assert step(folder)["sql"] == "SELECT `id`, `updated_at` FROM `selected`"
    assert step(folder)["target"] == {
        "type": "jdbc",
        "connection": "shop",
        "table": "dwd.orders",
        "mode": "upsert",
        "key": ["id"],
    }
    assert "rows with an older updated_at than in the table" in told["untranslated"][0]["reason"]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


@pytest.mark.parametrize(
    "old", ["slowChanging=false", "updateType=incremental", "primaryFields=id", '{"id":"int"']
)
def test_other_loads_of_dimensions_are_listed(folder: Folder, brought: Any, old: str):
    new = {"slowChanging=false": "slowChanging=true", "updateType=incremental": "updateType=full"}
    told = brought(HEAD + SELECTED + LOAD.replace(old, new.get(old, "x=1")), code=1)
    assert "step 2" in {item for _, item in listed(told)}
    assert "not translated" in step(folder)["sql"]


def test_secrets_in_options_are_listed_and_not_written(folder: Folder, brought: Any):
    text = header("").replace(
        "    SELECT", "    --  options\n    --   dbPassword=tr0ub4dor\n    SELECT"
    )
    told = brought(text, code=1)
    assert "secrets are not written to files" in told["untranslated"][0]["reason"]
    assert "tr0ub4dor" not in str(told) + folder.text("tables/w.yaml")


def test_the_same_import_again_changes_nothing(brought: Any):
    told = brought(header("--  defaultStart=20220203040506"))
    assert brought()["unchanged"] == told["written"]


def test_sql_in_a_folder_that_is_no_workflow_is_listed(brought: Any):
    told = brought(header(""), "SELECT 1", code=1)
    assert told["untranslated"][0]["reason"] == "it has no `-- workflow=`"


@pytest.mark.usefixtures("long")
def test_workflows_of_the_project_itself_run(mariadb_folder: Folder, command: Any, spark: Any):
    folder = mariadb_folder
    folder.spark = spark
    kafka = {"kafka": {"bootstrap.servers": "localhost:9092"}}
    url = {"url": folder.url_text}
    folder.configure(connections={"int_test": url, "postgres": url, "kafka": kafka})
    folder.execute(
        "CREATE TABLE test_source (order_id INTEGER, value VARCHAR(9), bz_time VARCHAR(30))",
        "INSERT INTO test_source VALUES (1, 'a', '2022-01-01'), (2, 'b', '2022-01-02')",
        "CREATE TABLE test_inc_id_table (id INTEGER PRIMARY KEY, value VARCHAR(9))",
        "INSERT INTO test_inc_id_table VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "CREATE TABLE ods_inc_id_table (id BIGINT PRIMARY KEY, value VARCHAR(9), job_id TEXT, "
        "job_time DATETIME)",
    )
    for path in EXAMPLES.glob("*.sql"):  # the database of this test has another name
        text = path.read_text().replace("`int_test`.", "").replace("int_test.", "")
        folder.write(f"workflows/{path.name}", text)
    result = command("import-sharpetl", folder.root / "workflows", "--json")
    assert result.code == 1, result.err
    offline = {
        n for n, t in load_project(folder.root).tables.items() if t.release_state != "online"
    }
    assert {"from_step_id", "jobDependencyCheck"} <= offline
    assert not {"hello_world", "test_source", "auto_inc_id_mode", "latest_only"} & offline
    assert listed(result.json)

    for name in ("hello_world", "test_source", "auto_inc_id_mode"):
        folder.run_all(tables=(name,))
    assert {row[0] for row in folder.rows("hello_world")} == {"SUCCESS"}
    days = rows(folder.url, "SELECT order_id, dt FROM test_ods ORDER BY 2, 1")
    assert days[:3] == [
        (1, "2022-01-01 00:00:00"),
        (2, "2022-01-01 00:00:00"),
        (1, "2022-01-02 00:00:00"),
    ]
    assert len(days) == 2 * 9
    assert rows(folder.url, "SELECT id, value FROM ods_inc_id_table ORDER BY id") == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]
    folder.execute("INSERT INTO test_inc_id_table VALUES (4, 'd')")
    folder.run_all(days=1, tables=("auto_inc_id_mode",))
    assert rows(folder.url, "SELECT max(id) FROM ods_inc_id_table") == [(4,)]
