"""Which queries may run for several windows in one pass."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.stretching import (
    find_single_windows,
    find_stretch_obstacle,
    find_window_keys,
)
from logdriven_dagster.config.sql.window_keys import KeyAnalysis, find_source_keys
from logdriven_dagster.config.sql.window_scopes import SHARED, NamedRows, TogetherError
from logdriven_dagster.model.periods import Grid, Period

DAYS = Grid(datetime(2022, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), Period.parse("1 day"))
HOURS = Grid(datetime(2022, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), Period.parse("1 hour"))
TEXTS = "at >= '${DATA_RANGE_START}' AND at < '${DATA_RANGE_END}'"
BOUNDS = ":data_range_start <= at AND at < :data_range_end"
RELATIONS = {
    "source": NamedRows(frozenset({"at"})),
    "ods.lines": NamedRows(frozenset({"at"})),
    "ods.months": NamedRows(must_name=frozenset({"at"})),
    "dim.shops": SHARED,
    "raw": SHARED,
    "own": NamedRows(refused="it reads own"),
}


def keys(sql: str, grid: Grid = DAYS) -> set[str] | None:
    found = KeyAnalysis(grid, RELATIONS).analyze(sql).keys
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT at, amount * 2 AS twice FROM source WHERE amount > 0", {"at"}),
        ("SELECT * FROM source", {"at"}),
        ("SELECT s.*, d.name FROM source s LEFT JOIN dim.shops d ON s.id = d.id", {"at"}),
        ("SELECT CAST(at AS DATE) AS day, count(*) FROM source GROUP BY CAST(at AS DATE)", {"day"}),
        ("SELECT to_date(at) AS day, count(DISTINCT id) FROM source GROUP BY 1", {"day"}),
        ("SELECT date_trunc('DAY', at) AS day, sum(n) FROM source GROUP BY day", {"day"}),
        ("SELECT DISTINCT at, id FROM source", {"at"}),
        (
            "SELECT at, row_number() OVER (PARTITION BY at, id ORDER BY n) AS n FROM source",
            {"at"},
        ),
        ("WITH a AS (SELECT at AS t, id FROM source) SELECT t AS day FROM a", {"day"}),
        ("SELECT * FROM raw WHERE at >= :data_range_start AND at < :data_range_end", {"at"}),
        (
            "SELECT * FROM raw WHERE at >= '${DATA_RANGE_START}' AND at < '${DATA_RANGE_END}'",
            {"at"},
        ),
        (
            "SELECT at FROM ods.months m WHERE :data_range_start <= at AND at < :data_range_end",
            {"at"},
        ),
        ("SELECT s.at FROM source s JOIN ods.lines l ON s.at = l.at AND s.id = l.id", {"at"}),
        ("SELECT at FROM source UNION ALL SELECT at FROM ods.lines", {"at"}),
        ("SELECT at, x FROM source LATERAL VIEW explode(items) e AS x", {"at"}),
        ("SELECT at FROM source WHERE id IN (SELECT id FROM dim.shops)", {"at"}),
        ("SELECT amount FROM source", set()),
        ("SELECT * FROM dim.shops LIMIT 3", None),
        ("SELECT count(*) FROM dim.shops", None),
        (
            "SELECT at FROM source s WHERE EXISTS (SELECT 1 FROM dim.shops d WHERE d.id = s.id)",
            {"at"},
        ),
    ],
)
def test_rows_keep_to_their_window(sql: str, expected: set[str] | None):
    assert keys(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM source",
        "SELECT id, count(*) FROM source GROUP BY id",
        "SELECT at, count(*) FROM source GROUP BY ROLLUP (at)",
        "SELECT at, count(*) FROM source GROUP BY at WITH CUBE",
        "SELECT max(at) AS at, id FROM source GROUP BY to_date(at), GROUPING SETS ((id), ())",
        "SELECT DISTINCT id FROM source",
        "SELECT at, row_number() OVER (ORDER BY n) AS n FROM source",
        "SELECT at, sum(n) OVER (PARTITION BY id) AS n FROM source",
        "SELECT at FROM source ORDER BY n LIMIT 10",
        "SELECT at FROM source TABLESAMPLE (10 PERCENT)",
        "SELECT a.at FROM source a JOIN source b ON a.id = b.id",
        "SELECT a.at FROM source a, ods.lines b",
        "SELECT d.id, s.at FROM dim.shops d LEFT JOIN source s ON d.id = s.id",
        "SELECT s.at FROM source s FULL JOIN dim.shops d ON d.id = s.id",
        "SELECT at FROM source UNION ALL SELECT at FROM dim.shops",
        "SELECT id FROM source UNION SELECT id FROM ods.lines",
        "SELECT at, (SELECT max(n) FROM ods.lines) AS top FROM source",
        "SELECT at FROM source WHERE id NOT IN (SELECT id FROM ods.lines)",
        "SELECT at, :data_range_start AS loaded_for FROM source",
        "SELECT at FROM raw WHERE at > :data_range_start AND at <= :data_range_end",
        "SELECT at, :job_id AS job FROM source",
        "SELECT at, '${YEAR}' AS year FROM source",
        "SELECT at FROM ods.months",
        "SELECT at FROM own",
        "SELECT x FROM (SELECT at AS x FROM source LIMIT 5)",
        "WITH a AS (SELECT id, max(at) AS at FROM source GROUP BY id) SELECT * FROM a",
        "SELECT * FROM dim.shops WHERE id IN (SELECT id FROM source)",
    ],
)
def test_what_looks_at_rows_of_several_windows_keeps_them_apart(sql: str):
    with pytest.raises(TogetherError):
        keys(sql)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT *, CAST(at AS DATE) AS day FROM source WHERE n > 1", {"at", "day"}),
        ("SELECT at AS t, id FROM source s WHERE n > 1", {"t"}),
        ("SELECT at FROM source s JOIN dim.shops d USING (id)", set()),
        ("SELECT at FROM raw WHERE at >= :data_range_start AND at < :data_range_end", set()),
        ("SELECT at + INTERVAL 1 DAY AS at FROM source", set()),
        ("SELECT now() AS at", set()),
        ("SELECT at FROM source LIMIT 3", set()),
        ("SELECT at FROM source ${joined_with}", set()),
        (f"SELECT at FROM source WHERE {TEXTS}", {"at"}),
        ("SELECT FROM source WHERE (", set()),
    ],
)
def test_what_lies_in_the_window_because_the_source_does(sql: str, expected: set[str]):
    assert find_source_keys(sql, DAYS, "AT") == expected


def test_the_reason_names_the_table_that_a_query_calls_by_an_alias():
    sql = "SELECT s.at FROM source s JOIN ods.months m ON m.id = s.id"
    with pytest.raises(TogetherError, match=r"other windows' rows of ods\.months.*`m\.at >= "):
        keys(sql)


def test_a_day_is_not_made_of_hours_that_are_windows():
    assert keys("SELECT CAST(at AS DATE) AS day FROM source", HOURS) == set()


def test_windows_of_numbers_that_mean_times_run_one_by_one_and_the_plan_gives_the_reason(
    tmp_path: Path,
):
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text("project: shop")
    (tmp_path / "tables/a.yaml").write_text(
        "{table: ods.a, period: 1 day, default_start: 2022-01-01, batch_size: all, steps: [{"
        "step: load, source: {type: parquet, path: in, window_column: {name: ts, unit: epoch_ms}}, "
        "sql: 'SELECT *, timestamp_millis(ts) AS at FROM source', "
        "target: {type: parquet, window_column: at}}]}"
    )
    project = load_project(tmp_path)
    obstacle = find_stretch_obstacle(project, project.table("ods.a"))
    assert str(obstacle).startswith("step load: values of source.window_column ts are not")


@pytest.mark.parametrize(
    ("select", "key"),
    [
        ("*", "at"),
        ("id, at AS ordered_at", "ordered_at"),
        ("id, CAST(at AS DATE) AS day, at", "at"),
        ("CAST(at AS DATE) AS day, count(*) AS n", "day"),
    ],
)
def test_without_a_window_column_the_target_uses_a_column_of_the_result(
    tmp_path: Path, select: str, key: str
):
    grouped = " GROUP BY CAST(at AS DATE)" if "count" in select else ""
    project = project_of(tmp_path, f"SELECT {select} FROM source{grouped}")
    table = project.table("ods.a")
    assert find_stretch_obstacle(project, table) is None
    assert find_window_keys(project, table) == {"load": key}
    assert find_single_windows(project, {"ods.a": 30}) == {}


def test_a_result_without_such_a_column_keeps_windows_apart_and_the_reason_names_one(
    tmp_path: Path,
):
    project = project_of(tmp_path, "SELECT id FROM source")
    assert find_window_keys(project, project.table("ods.a")) == {}
    reason = "step load: no column of the result identifies the window of a row; select at, too"
    assert find_single_windows(project, {"ods.a": 10}) == {"ods.a": reason}
    assert find_single_windows(project, {"ods.a": 9}) == {}


def project_of(folder: Path, sql: str, columns: str = "options: {}") -> Project:
    (folder / "tables").mkdir()
    (folder / "logdriven.yaml").write_text("project: shop")
    (folder / "tables/a.yaml").write_text(
        "{table: ods.a, period: 1 day, default_start: 2022-01-01, steps: [{step: load, "
        f"source: {{type: parquet, path: in, window_column: at, {columns}}}, "
        f"sql: '{sql}', target: {{type: iceberg}}}}]}}"
    )
    return load_project(folder)


HIDDEN = [
    "SELECT s.at, l.c FROM source s, LATERAL (SELECT count(*) AS c FROM source t) l",
    "SELECT s.at FROM source s LATERAL VIEW explode((SELECT collect_list(id) FROM source)) t AS x",
    "SELECT s.at FROM source s JOIN (source) a ON s.v = a.v",
    "SELECT s.at FROM source s JOIN (TABLE source) a ON s.v = a.v",
    "SELECT s.at FROM source s LEFT JOIN (source a CROSS JOIN (VALUES (1)) x(z)) ON s.v = a.v",
    "SELECT s.at FROM source s, (SELECT count(*) n FROM IDENTIFIER(''source''))",
    "SELECT at FROM source WHERE id > ALL (SELECT id FROM source)",
    "SELECT to_date(at, ''dd'') AS d FROM source",
]


@pytest.mark.parametrize("sql", HIDDEN)
def test_rows_of_windows_that_are_read_in_other_ways_keep_windows_apart(tmp_path: Path, sql: str):
    project = project_of(tmp_path, sql)
    assert find_stretch_obstacle(project, project.table("ods.a")) is not None


def test_a_declared_text_as_window_column_keeps_windows_apart(tmp_path: Path):
    columns = 'columns: "at STRING, id INT"'
    project = project_of(tmp_path, "SELECT CAST(at AS DATE) AS d FROM source", columns)
    obstacle = find_stretch_obstacle(project, project.table("ods.a"))
    assert obstacle is not None
    assert "declare it as TIMESTAMP" in obstacle
