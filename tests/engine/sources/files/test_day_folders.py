"""Paths with the times of a window: folders and files by day, hour or week, and missing ones."""

import pytest

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow
from tests.builders import at, day
from tests.engine.laboratory import Lab

TARGET = {"type": "parquet"}
COLUMNS = "n INT"
FORMS = {
    "hive": "in/dt=${DATA_RANGE:yyyy-MM-dd}",
    "nested": "in/${DATA_RANGE:yyyy/MM/dd}/*.csv",
    "names": "in/events-${DATA_RANGE:yyyyMMdd}.csv",
    "start": "in/${DATA_RANGE_START:yyyy}/${DATA_RANGE_START:MM-dd}/${DATA_RANGE_END:yyMMdd}.csv",
}
PLACES = {
    "hive": "in/dt=2022-01-0{}/a.csv",
    "nested": "in/2022/01/0{}/a.csv",
    "names": "in/events-2022010{}.csv",
    "start": "in/2022/01-0{0}/22010{1}.csv",
}
WEEK = TimeWindow(at("2022-01-03"), at("2022-01-10"))


def events(lab: Lab, path: str, **source: object) -> None:
    whole = {"type": "csv", "path": path, "header": True, "columns": COLUMNS, **source}
    lab.table("ods.t", {"source": whole, "target": TARGET})


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("form", FORMS)
def test_a_window_reads_the_folder_or_file_of_its_day(lab: Lab, form: str):
    for n in (1, 2, 3):
        lab.file(PLACES[form].format(n, n + 1), f"n\n{n}\n")
    events(lab, FORMS[form])
    for n in (1, 2):
        lab.run("ods.t", day(n))
    assert lab.rows("ods.t") == [(1,), (2,)]


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("form", ["nested", "names"])
def test_a_window_of_a_week_reads_the_folders_of_all_its_days(lab: Lab, form: str):
    for n in range(1, 10):
        lab.file(PLACES[form].format(n), f"n\n{n}\n")
    events(lab, FORMS[form])
    ran = lab.run("ods.t", WEEK)
    assert lab.rows("ods.t") == [(n,) for n in range(3, 10)]
    assert ran.counts.source == 7


def test_a_day_of_hourly_folders_has_23_hours_when_clocks_go_forward(lab: Lab):
    lab.settings["timezone"] = "Europe/Amsterdam"
    table = {"period": "1 day", "default_start": "2022-03-27"}
    for hour in (*range(2), *range(3, 24)):
        lab.file(f"in/2022-03-27/{hour:02}/a.csv", f"n\n{hour}\n")
    source = {"type": "csv", "path": "in/${DATA_RANGE:yyyy-MM-dd/HH}", "columns": COLUMNS}
    lab.table("ods.t", {"source": {**source, "header": True}, "target": TARGET}, **table)
    lab.run("ods.t", lab.project.table("ods.t").grid.window(0))
    assert len(lab.rows("ods.t")) == 23


@pytest.mark.connect
def test_a_missing_folder_of_several_fails_the_window_with_its_name(lab: Lab):
    for n in (3, 4, 5, 7, 9):
        lab.file(PLACES["nested"].format(n), f"n\n{n}\n")
    events(lab, FORMS["nested"])
    told = r"in/2022/01/06/\*.csv and 1 more: no files for \[2022-01-03, 2022-01-10\)"
    with pytest.raises(TerminalStepError, match=told):
        lab.run("ods.t", WEEK)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_missing_files_may_have_no_rows(lab: Lab, kind: str):
    columns = {"missing_files": "no_rows", "columns": "n INT, at TIMESTAMP", "window_column": "at"}
    source = {"type": kind, "path": "in/${DATA_RANGE:yyyy-MM-dd}"}
    lab.table("ods.t", {"source": {**source, **columns}, "target": TARGET})
    for n in (2, 4):
        rows = lab.spark.createDataFrame([(n, at(f"2022-01-0{n} 10:00"))], columns["columns"])
        rows.write.format(kind).save(str(lab.root / f"in/2022-01-0{n}"))
    for window in (day(1), day(2), TimeWindow(at("2022-01-03"), at("2022-01-06"))):
        lab.run("ods.t", window)
    assert [row[0] for row in lab.rows("ods.t")] == [2, 4]


def test_a_missing_day_without_columns_names_the_fix(lab: Lab):
    source = {"type": "csv", "path": "in/${DATA_RANGE:dd}/*.csv", "missing_files": "no_rows"}
    lab.table("ods.t", {"source": source, "target": TARGET})
    told = r"in/01/\*.csv: there are no files for .*, and so no columns; set columns"
    with pytest.raises(TerminalStepError, match=told):
        lab.run("ods.t", day(1))


def test_a_missing_day_without_the_setting_names_the_folder(lab: Lab):
    events(lab, FORMS["hive"])
    with pytest.raises(TerminalStepError, match=r"in/dt=2022-01-01 does not exist"):
        lab.run("ods.t", day(1))


@pytest.mark.sampled
def test_a_start_with_a_format_is_a_text_of_a_query(lab: Lab):
    sql = "SELECT '${DATA_RANGE_START:yyyyMMdd}' AS a, ${DATA_RANGE_END:yyyyMMddHH} AS b"
    lab.table("ods.t", {"sql": sql, "target": TARGET})
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [("20220101", 2022010200)]
