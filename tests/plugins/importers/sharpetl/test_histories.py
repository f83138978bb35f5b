"""Sharp ETL's SCDTransformer and NonSCDTransformer as targets of mode history and upsert.

The steps are those of Sharp ETL's templates (DwdWorkflowGen). The rows of the first test with Spark
are those of its DimStudentModelingSpec.
"""

from typing import Any

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import Engine
from logdriven_dagster.execution.events import WindowFailed
from tests.plugins.importers.conftest import NOW, Folder
from tests.plugins.importers.sharpetl.conftest import HEAD, listed

SELECTED = """
    -- step=1
    -- source=mysql
    --  dbName=shop
    -- target=temp
    --  tableName=extracted
    select code, name, created, updated from students
    where updated >= '${DATA_RANGE_START}' and updated < '${DATA_RANGE_END}';

    -- step=2
    -- source=temp
    --  tableName=extracted
    -- target=temp
    --  tableName=selected
    select `code`, `name`, cast(`created` as timestamp) as `created`,
      cast(`updated` as timestamp) as `updated`, 'x' as `job_id`, 'x' as `year`
    from `extracted`;
"""
PARTITIONS = """
    -- step=3
    -- source=hive
    --  dbName=dim
    --  tableName=student
    -- target=variables
    select concat('where (',
      ifEmpty(
        concat_ws(')\\n   or (', collect_set(concat_ws(' and ', concat('`year` = ', `year`), \
concat('`month` = ', `month`)))),
        '1 = 1'),
      ')') as `DWD_UPDATED_PARTITION`
    from (
      select
      dwd.*
      from `dim`.`student` dwd
      left join `selected` incremental_data on dwd.code = incremental_data.code
      where incremental_data.code is not null
            and dwd.is_latest = 1
    );
"""
EXISTING = """
    -- step=4
    -- source=hive
    --  dbName=dim
    --  tableName=student
    -- target=temp
    --  tableName=existing
    select *
    from `dim`.`student`
    ${DWD_UPDATED_PARTITION};
"""
MERGE = """
    -- step=5
    -- source=transformation
    --  className=com.github.sharpdata.sharpetl.spark.transformation.SCDTransformer
    --  methodName=transform
    --   createTimeField=updated
    --   dwUpdateType=incremental
    --   dwViewName=existing
    --   odsViewName=selected
    --   partitionField=created
    --   partitionFormat=year/month/day
    --   primaryFields=code
    --   surrogateField=
    --   timeFormat=yyyy-MM-dd HH:mm:ss
    --   updateTimeField=updated
    --  transformerType=object
    -- target=hive
    --  dbName=dim
    --  tableName=student
    -- writeMode=overwrite
"""
DIMENSION = HEAD + SELECTED + PARTITIONS + EXISTING + MERGE
NEWEST = DIMENSION.replace("SCDTransformer", "NonSCDTransformer").replace(
    "and dwd.is_latest = 1", "and '1' = '1'"
)


def steps(folder: Folder) -> Any:
    return folder.values("tables/w.yaml")["steps"]


def test_a_load_of_versions_is_mode_history_whose_rows_each_begin_a_version(
    folder: Folder, brought: Any
):
    told = brought(DIMENSION)
    assert [step["step"] for step in steps(folder)] == ["extracted", "selected", "step_5"]
    assert steps(folder)[-1]["target"] == {
        "type": "iceberg",
        "name": "dim.student",
        "mode": "history",
        "key": ["code"],
        "sequence_by": "updated",
        "track": ["updated"],
        "valid_from": "start_time",
        "valid_to": "end_time",
    }
    sql = steps(folder)[-1]["sql"]
    assert "job_id" not in sql
    assert "from_unixtime(unix_timestamp(`created`, 'yyyy-MM-dd HH:mm:ss'), 'dd') AS `day`" in sql
    notes = "\n".join(note["reason"] for note in told["notes"])
    assert "only SCDTransformer reads its rows" in notes
    assert "the current version has end_time IS NULL" in notes


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("createTimeField=updated", "createTimeField=created", "and at created in Sharp ETL"),
        ("surrogateField=", "surrogateField=name", "name must not change if a window runs again"),
    ],
)
def test_versions_with_another_start_or_id_are_reviewed(
    folder: Folder, brought: Any, old: str, new: str, reason: str
):
    told = brought(DIMENSION.replace(old, new), code=1)
    assert reason in told["untranslated"][0]["reason"]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_times_that_the_table_lacks_there_are_kept_as_the_start_of_a_version(
    folder: Folder, brought: Any
):
    text = DIMENSION.replace("createTimeField=updated", "createTimeField=created")
    brought(text.replace("-   dwUpd", "-   dropUpdateTimeField=true\n    --   dwUpd"), code=1)
    kept = steps(folder)[-1]["sql"].partition("from_unixtime")[0]
    assert kept == "SELECT `code`,\n  `name`,\n  `updated`,\n  "


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("dwUpdateType=incremental", "dwUpdateType=full", "snapshot: true}"),
        ("=year/month/day", "=year/month", "partitionFormat=year/month is not year/month/day"),
        ("updateTimeField=updated", "updateTimeField=updated,name", "a version has one time"),
        ("primaryFields=code", "primaryFields=", "must have odsViewName, dwViewName"),
        ("createTimeField=updated", "createTimeField=at", "selected has no column at"),
        ("select `code`, `name`", "select *, `code`", "selected must name all its columns"),
        ("and dwd.is_latest = 1", "", "is not the view of Sharp ETL's templates on dim.student"),
        ("dwViewName=existing", "dwViewName=extracted", "is not the view of Sharp ETL's templates"),
        ("logDrivenType=timewindow", "logDrivenType=auto_inc_id", "needs windows of time"),
        ("-- target=hive\n", "-- target=postgres\n", "cannot write into postgres here"),
    ],
)
def test_other_merges_of_rows_are_refused(
    folder: Folder, brought: Any, old: str, new: str, reason: str
):
    told = brought(DIMENSION.replace(old, new), code=1)
    found = [each["reason"] for each in told["untranslated"] if each["item"] == "step 5"]
    assert reason in found[0]
    assert "not translated" in steps(folder)[-1]["sql"]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_upstream_workflows_of_parts_of_the_start_have_windows_of_time(
    folder: Folder, brought: Any
):
    """Sharp ETL knows `${YEAR}` only for windows of time."""
    upstream = HEAD.replace("=w", "=ods")
    loaded = upstream + SELECTED
    text = DIMENSION.replace("timewindow", "upstream\n    --  upstream=ods").replace(
        "'${DATA_RANGE_START}'", "'${YEAR}'"
    )
    told = brought(text.replace("'${DATA_RANGE_END}'", "'x'"), loaded)
    values = folder.values("tables/w.yaml")
    assert values["incremental_type"] == "time_window"
    assert values["depends_on"] == [{"table": "ods", "read": "none"}]
    assert "only for windows of time" in str(told["notes"])


READ_BACK = """
    -- step=6
    -- source=hive
    -- target=temp
    --  tableName=back
    select * from dim.student;
"""


def test_a_query_of_a_table_that_its_workflow_writes_is_listed(folder: Folder, brought: Any):
    told = brought(DIMENSION + READ_BACK, code=1)
    assert listed(told)[0][1] == "step 6"
    reason = told["untranslated"][0]["reason"]
    assert "it reads dim.student, which workflow w writes into a table of the project" in reason
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_a_query_of_a_table_that_another_workflow_writes_is_listed(folder: Folder, brought: Any):
    told = brought(DIMENSION, HEAD.replace("=w", "=v") + READ_BACK, code=1)
    assert "which workflow w writes into a table of the project" in str(told["untranslated"])
    assert folder.values("tables/v.yaml")["release_state"] == "offline"


def test_tables_of_other_systems_in_queries_of_spark_are_declared(folder: Folder, brought: Any):
    read = READ_BACK.replace(
        "dim.student", "(select * from dim.class join t) where 1 in (select 1)"
    )
    brought(HEAD + SELECTED + read)
    assert folder.values("tables/w.yaml")["depends_on"] == [
        {"table": "dim.class", "managed": "false"},
        {"table": "t", "managed": "false"},
    ]


def test_a_query_that_only_shows_written_rows_is_left_out(folder: Folder, brought: Any):
    brought(DIMENSION + READ_BACK.replace("target=temp", "target=console"))
    assert steps(folder)[-1]["step"] == "step_5"


STUDENTS = [
    ("zhang san", "user name", "2022-01-07 10:00:00", "2022-01-07 15:00:00"),
    ("zhang san", "new user name", "2022-01-07 15:00:00", "2022-01-08 18:00:00"),
    ("li si", "li si", "2022-01-08 11:00:00", "2022-01-08 11:00:00"),
    ("zhang san", "another", "2022-01-07 15:00:00", "2022-01-09 15:00:00"),
    ("wang wu", "li si", "2022-01-09 11:00:00", "2022-01-09 11:00:00"),
    ("li si", "li si", "2022-01-08 11:00:00", "2022-01-09 12:00:00"),  # only a newer time
    ("li si", "li si", "2022-01-08 11:00:00", "2022-01-09 12:00:00"),
    ("zhao liu", "a", "2022-01-09 06:00:00", "2022-01-09 06:00:00"),
    ("zhao liu", "b", "2022-01-09 06:00:00", "2022-01-09 07:00:00"),
]
AS_THERE = """
    SELECT code, name, CASE WHEN row_number() OVER (PARTITION BY code ORDER BY start_time) = 1
        THEN created ELSE start_time END AS start_time,
      end_time, if(end_time IS NULL, '1', '0') AS is_latest, concat(year, month, day) AS partition
    FROM {rows} ORDER BY code, start_time
"""


def test_versions_are_those_of_sharp_etl(folder: Folder, brought: Any, spark: Any):
    """The expected rows are Sharp ETL's; its query for the first start is in the documentation."""
    folder.spark = spark
    folder.execute("CREATE TABLE students (code TEXT, name TEXT, created TEXT, updated TEXT)")
    for row in STUDENTS:
        folder.execute(f"INSERT INTO students VALUES {row}")
    start = ("timewindow", "timewindow\n    --  defaultStart=20220107")
    newest = NEWEST.replace("=w", "=newest").replace("dim", "dwd").replace(*start)
    brought(DIMENSION.replace(*start), newest)
    folder.run_all()
    found = Engine(load_project(folder.root), spark).read("w")
    found.createOrReplaceTempView("found")
    day = {d: f"2022010{d}" for d in (7, 8, 9)}
    assert [_short(row) for row in spark.sql(AS_THERE.format(rows="found")).collect()] == [
        ("li si", "li si", "08 11", "09 12", "0", day[8]),
        ("li si", "li si", "09 12", None, "1", day[8]),
        ("wang wu", "li si", "09 11", None, "1", day[9]),
        ("zhang san", "user name", "07 10", "08 18", "0", day[7]),
        ("zhang san", "new user name", "08 18", "09 15", "0", day[7]),
        ("zhang san", "another", "09 15", None, "1", day[7]),
        ("zhao liu", "a", "09 06", "09 07", "0", day[9]),
        ("zhao liu", "b", "09 07", None, "1", day[9]),
    ]
    rows = Engine(load_project(folder.root), spark).read("newest").collect()
    assert sorted((row["code"], row["name"], f"{row['updated']:%d %H}") for row in rows) == [
        ("li si", "li si", "09 12"),
        ("wang wu", "li si", "09 11"),
        ("zhang san", "another", "09 15"),
        ("zhao liu", "b", "09 07"),
    ]
    text = folder.text("tables/newest.yaml")
    late = text.replace("'${DATA_RANGE_START}'", "'2022-01-07'")
    folder.write("tables/newest.yaml", late)
    ended = folder.catch_up(now=NOW.replace(day=11), tables=("newest",))
    (failed,) = [event for event in ended if isinstance(event, WindowFailed)]
    assert "selected_is_of_the_window" in str(failed.error)


def _short(row: Any) -> tuple[Any, ...]:
    return (*row[:2], *(at and f"{at:%d %H}" for at in row[2:4]), *row[4:])
