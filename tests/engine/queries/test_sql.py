"""What a query can name: parameters, variables, steps, tables."""

import pytest

from logdriven_dagster.engine.spark.mode import is_connect
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow
from tests.builders import day, hours
from tests.engine.laboratory import Lab

TARGET = {"type": "parquet"}


def only_row(
    lab: Lab, sql: str, window: TimeWindow | None = None, **fields: object
) -> tuple[object, ...]:
    lab.table("ods.t", {"sql": sql, "target": TARGET})
    lab.run("ods.t", window or day(5), **fields)
    return lab.rows("ods.t")[0]


def test_bounds_are_bound_as_timestamps(lab: Lab):
    sql = (
        "SELECT typeof(:data_range_start) a, string(:data_range_start) b, string(:data_range_end) c"
    )
    assert only_row(lab, sql) == ("timestamp", "2022-01-05 00:00:00", "2022-01-06 00:00:00")


def test_job_and_variables_are_bound(lab: Lab):
    lab.settings["variables"] = {"limit": 3, "word": "it's"}
    sql = "SELECT :job_id a, :job_name b, :limit c, :word d, ':word' e, 1::string f"
    assert only_row(lab, sql, job_id=77) == (77, "ods.t", 3, "it's", ":word", "1")


def test_the_text_family_of_sharp_etl_is_there_for_every_period(lab: Lab):
    sql = (
        "SELECT '${DATA_RANGE_START}' a, '${DATA_RANGE_END}' b, ${JOB_ID} c, '${JOB_NAME}' d,"
        "'${YEAR}-${MONTH}-${DAY}T${HOUR}:${MINUTE}' e"
    )
    expected = ("2022-01-05 07:00:00", "2022-01-05 08:00:00", 7, "ods.t", "2022-01-05T07:00")
    assert only_row(lab, sql, hours(7, 8, of_day=5), job_id=7) == expected


def test_the_text_of_a_bound_compares_as_a_timestamp(lab: Lab):
    sql = "SELECT :data_range_start = '${DATA_RANGE_START}' AS same"
    assert only_row(lab, sql) == (True,)


def test_bounds_follow_the_projects_time_zone(lab: Lab):
    lab.settings["timezone"] = "America/New_York"
    sql = "SELECT '${DATA_RANGE_START}' a, string(:data_range_start) b, hour(:data_range_start) c"
    project_day = lab.project and lab.table("ods.t", {"sql": sql, "target": TARGET})
    window = lab.project.table(project_day).grid.window(0)
    assert only_row(lab, sql, window) == ("2022-01-01 00:00:00", "2022-01-01 00:00:00", 0)


def test_variables_of_a_table_win_and_overrides_win_over_both(lab: Lab):
    lab.settings["variables"] = {"where": "project"}
    lab.table(
        "ods.t", {"sql": "SELECT '${where}' AS w", "target": TARGET}, variables={"where": "table"}
    )
    lab.run("ods.t", day(1))
    lab.run("ods.t", day(2), variables={"where": "override"})
    assert lab.rows("ods.t") == [("override",), ("table",)]


def test_an_unknown_variable_is_named(lab: Lab):
    with pytest.raises(TerminalStepError, match=r"unknown variable \$\{nope\}"):
        only_row(lab, "SELECT '${nope}'")


def test_paths_take_variables_and_parts_of_the_window(lab: Lab):
    lab.settings["variables"] = {"data": "in"}
    lab.file("in/2022/05/a.csv", "x\n1\n")
    source = {"type": "csv", "path": "${data}/${YEAR}/${DAY}", "header": True}
    lab.table("ods.t", {"source": source, "target": TARGET})
    ran = lab.run("ods.t", day(5))
    assert ran.staged[0].current_files == ("a.csv",)
    assert lab.rows("ods.t") == [("1",)]


def test_a_step_reads_earlier_steps_by_name(lab: Lab):
    lab.table(
        "ods.t",
        {"sql": "SELECT 1 AS a"},
        {"sql": "SELECT a + 1 AS b FROM step_1", "target": {"type": "parquet", "path": "between"}},
        {"sql": "SELECT a + b AS c FROM step_1, step_2", "target": TARGET},
    )
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(3,)]


def test_views_of_a_window_are_gone_afterwards_and_never_seen_by_another(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT 1 AS a", "target": TARGET})
    lab.table("ods.u", {"sql": "SELECT * FROM step_1", "target": TARGET})
    with lab.session("ods.t", day(1)) as session:
        lab.finish(session, "ods.t")
        with pytest.raises(TerminalStepError, match="step_1"):
            lab.run("ods.u", day(1))
    assert is_connect(lab.spark) or session._context.spark.catalog.listTables() == []
    assert not lab.spark.catalog.tableExists("step_1")


def test_upstream_tables_keep_working_as_qualifiers(lab: Lab):
    lab.table("ods.a", {"sql": "SELECT day(:data_range_start) AS d", "target": TARGET})
    for n in (1, 2):
        lab.run("ods.a", day(n))
    query = "WITH c AS (SELECT a.d FROM ods.a WHERE a.d > 0) SELECT c.d AS x FROM c, `ods`.`a` b"
    lab.table("dwd.t", {"sql": query, "target": TARGET}, depends_on=["ods.a"])
    ran = lab.run("dwd.t", day(2))
    assert lab.rows("dwd.t") == [(2,)]
    assert (ran.staged[0].source_type, ran.staged[0].target_type) == ("parquet", "parquet")


def test_a_table_reads_its_own_published_rows(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT 1 AS n", "target": TARGET})
    lab.run("ods.t", day(1))
    lab.table("ods.t", {"sql": "SELECT int(count(*)) + 1 AS n FROM ods.t", "target": TARGET})
    lab.run("ods.t", day(2))
    lab.run("ods.t", day(3))
    assert lab.rows("ods.t") == [(1,), (2,), (3,)]


def test_a_table_that_is_no_dependency_is_refused(lab: Lab):
    lab.table("ods.a", {"sql": "SELECT 1 AS a", "target": TARGET})
    lab.table(
        "dwd.t", {"sql": "SELECT a FROM (SELECT 1 AS a)", "target": TARGET}, depends_on=["ods.a"]
    )
    lab.table("dwd.u", {"sql": "SELECT * FROM ods.a", "target": TARGET}, depends_on=["ods.a"])
    lab.run("dwd.t", day(1), reads={})
    with pytest.raises(TerminalStepError, match=r"ods\.a, which is not in depends_on of dwd\.u"):
        lab.run("dwd.u", day(1), reads={})


def test_an_upstream_that_was_never_published_is_reported_as_such(lab: Lab):
    lab.table("ods.a", {"sql": "SELECT 1 AS a", "target": {"type": "iceberg"}})
    lab.table("dwd.u", {"sql": "SELECT * FROM ods.a", "target": TARGET}, depends_on=["ods.a"])
    with pytest.raises(TerminalStepError, match=r"ods\.a was never published"):
        lab.run("dwd.u", day(1))


def test_several_sources_unite_in_the_last_step(lab: Lab):
    for region, rows in (("nl", 3), ("be", 1)):
        lines = "\n".join(f"{n},2022-01-0{1 + n // 2} 10:00:00" for n in range(rows))
        lab.file(f"in/{region}.csv", f"id,at\n{lines}\n")
    common = {"type": "csv", "header": True, "columns": "id INT, at TIMESTAMP"}
    common["window_column"] = "at"
    sql = "SELECT 'nl' AS region, id FROM nl UNION ALL SELECT 'be' AS region, id FROM be"
    lab.table(
        "ods.t",
        *({"step": each, "source": {**common, "path": f"in/{each}.csv"}} for each in ("nl", "be")),
        {"step": "both", "sql": sql, "target": {"type": "parquet"}},
    )
    assert lab.run("ods.t", day(1)).counts.source == 3
    assert lab.run("ods.t", day(2)).counts.source == 1
    assert lab.rows("ods.t") == [("be", 0), ("nl", 0), ("nl", 1), ("nl", 2)]


def test_a_script_reads_the_source_and_earlier_steps_and_its_rows_read_are_unknown(lab: Lab):
    lab.file("a.csv", "id\n1\n2\n")
    lab.table(
        "ods.t",
        {"step": "first", "source": {"type": "csv", "path": "a.csv", "header": True}},
        {
            "step": "second",
            "sql": "BEGIN DECLARE n INT DEFAULT 3; SELECT INT(id) * n AS x FROM first; END",
            "target": {"type": "iceberg"},
        },
    )
    ran = lab.run("ods.t", day(1))
    assert (ran.counts.source, ran.counts.target) == (None, 2)
    assert sorted(lab.rows("ods.t")) == [(3,), (6,)]


def test_a_script_that_names_a_table_of_the_project_is_refused(lab: Lab):
    lab.table("ods.a", {"sql": "SELECT 1 AS x", "target": {"type": "iceberg"}})
    script = "BEGIN DECLARE n INT DEFAULT 3; SELECT x FROM ods.a; END"
    lab.table("ods.t", {"sql": script, "target": {"type": "iceberg"}}, depends_on=["ods.a"])
    with pytest.raises(TerminalStepError, match="a SQL script must not name tables of the project"):
        lab.run("ods.t", day(1), reads={"ods.a": None})


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM {} UNION ALL SELECT * FROM {}", "SELECT id FROM {} JOIN {} USING (id)"]
)
def test_the_log_has_the_rows_that_each_of_several_sources_gave(lab: Lab, sql: str):
    for name, ids in (("nl", "123"), ("be", "12")):
        lab.file(f"{name}.csv", "id,v\n" + "".join(f"{each},x\n" for each in ids))
    columns = {"header": True, "columns": "id INT, v STRING"}
    steps = [
        {"step": name, "source": {"type": "csv", "path": f"{name}.csv", **columns}}
        for name in ("nl", "be")
    ]
    lab.table("ods.t", *steps, {"sql": sql.format("nl", "be"), "target": {"type": "iceberg"}})
    (_, _, both) = lab.run("ods.t", day(1)).staged
    assert both.counts.source == 5
    told = "rows read: 3 by nl, 2 by be" in both.output
    assert told is not is_connect(lab.spark)
