"""Whether windows run in one pass or one by one, rules find the same in each of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from logdriven_dagster.config import load_project
from logdriven_dagster.config.sql.stretching import find_stretch_obstacle
from logdriven_dagster.engine import Engine
from logdriven_dagster.engine.quality import inspector
from logdriven_dagster.engine.targets.files.table import WindowFiles
from logdriven_dagster.engine.targets.iceberg.table import IcebergTable
from logdriven_dagster.engine.targets.rejected import build_rejected_target
from logdriven_dagster.engine.targets.store import StoreContext
from logdriven_dagster.engine.targets.stores import store
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.execution.events import WindowSetBack, WindowStarted, WindowSucceeded
from logdriven_dagster.plugins.delta.target.table import DeltaTable
from tests.execution.conftest import World
from tests.stretches.conftest import EXPIRE, NOW, POINTS, hurt

DAYS = range(3, 7)
LINES = [
    # Ids are there again on other days, and twice on even ones; the fifth day has no bad row.
    f"2022-01-0{day},{n % (3 if day % 2 else 2)},{'' if n % 4 == 1 else n - 1},{n}"
    for day in DAYS
    if day != 5
    for n in range(day + 2)
] + [f"2022-01-05,{n},{n},{n}" for n in range(3)]
TABLE = """
    table: ods.numbers
    period: 1 day
    default_start: 2022-01-03
    batch_size: all
    depends_on: [{{table: dim.known, window: none}}]
    steps:
      - step: load
        source:
          type: csv
          path: data/numbers.csv
          header: true
          columns: "day DATE, id INT, n INT, v INT"
          window_column: day
        sql: {sql}
        target: {target}
        quality: {quality}
"""
KNOWN = """
    table: dim.known
    incremental_type: full
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: load
        sql: SELECT * FROM VALUES (0), (1) known (id)
        target: {type: parquet, mode: overwrite}
"""
ICEBERG = "{type: iceberg, window_column: day}"
MAP, SUMS = "SELECT * FROM source", "SELECT day, id, max(n) n, max(v) v FROM source GROUP BY 1, 2"
ROWS = {"n": ["not_null", {"rule": "positive", "level": "warn"}]}
RULES: dict[str, dict[str, Any]] = {
    "single rows": {"id": ["id", "v"], "columns": ROWS},
    "without ids": {"columns": ROWS},
    "duplicates": {"id": ["id"], "deduplicate_order_by": "n desc", "columns": ROWS},
    "equally new": {"id": ["id"], "deduplicate_order_by": "day", "columns": {"n": ["not_null"]}},
    "unique": {"id": ["v"], "columns": {"id": [{"rule": "unique", "level": "warn"}], **ROWS}},
    "references": {
        "id": ["v"],
        "columns": {"id": [{"rule": "references", "table": "dim.known", "column": "id"}]},
    },
    "conditions": {
        "id": ["v"],
        "rows": [
            {"rule": "few", "sql": "count(*) OVER (PARTITION BY day, id) < 3"},
            {
                "rule": "known",
                "fails_when": "id NOT IN (SELECT id FROM dim.known)",
                "level": "warn",
            },
        ],
    },
    "queries": {
        "id": ["day", "v"],
        "rows": [
            {
                "rule": "largest",
                "sql": "SELECT day, max(v) AS v FROM rows GROUP BY day HAVING max(v) > 4",
            }
        ],
    },
    "kept apart": {
        "id": ["id", "v"],
        "deduplicate_order_by": "n",
        "keep_rejected": True,
        "columns": ROWS,
    },
}


def world_of(
    root: Path, spark: Any, quality: dict[str, Any], sql: str, target: str = ICEBERG
) -> World:
    world = World(root, spark)
    (world.root / "tables/sums.yaml").unlink()
    text = TABLE.format(sql=sql, target=target, quality=json.dumps(quality))
    world.write("tables/numbers.yaml", text)
    world.write("tables/known.yaml", KNOWN)
    world.write("data/numbers.csv", "\n".join(["day,id,n,v", *LINES]))
    return world


def logged(world: World) -> dict[str, list[list[Any]]]:
    """What the log holds of each window that succeeded, but for times and numbers of attempts."""
    asked = {
        "step_log": "status source_count target_count success_count failure_count",
        "quality_check_log": "column data_check_type error_type warn_count error_count "
        "checked_count ids",
        "process_log": "message_id message",
    }
    found = {}
    with world.runner.run_log.read() as conn:
        jobs = {row["job_id"]: row["data_range_start"] for row in world.log("ods.numbers")}
        for table, columns in asked.items():
            rows = conn.exec_driver_sql(f"SELECT * FROM {table} ORDER BY job_id").mappings().all()
            found[table] = [
                [jobs[row["job_id"]], *(row[name] for name in columns.split())]
                for row in rows
                # The hash is that of files, on which the other windows of a pass leave traces.
                if row["job_id"] in jobs and "hash" not in row.get("message_id", "")
            ]
    return found


def rows_of(world: World) -> tuple[list[str], list[str]]:
    """The published rows, and those that were kept out, each with its window."""
    project = load_project(world.root)
    engine = Engine(project, world.spark)
    apart = build_rejected_target("ods.numbers", project.table("ods.numbers").steps[0])
    context = StoreContext(project, world.spark, lambda: engine._catalog)
    rejected = store(context, *apart).read(None).collect() if apart else []
    return sorted(map(repr, engine.read("ods.numbers").collect())), sorted(map(repr, rejected))


def outcome(world: World, size: int) -> Any:
    world.catch_up(tables=["dim.known"], now=NOW)
    events = world.catch_up(now=NOW, arguments=RunArguments(batch_size=size))
    assert sum(isinstance(event, WindowSucceeded) for event in events) == len(DAYS)
    assert not any(isinstance(event, WindowSetBack) for event in events)
    assert isinstance(events[1], WindowStarted) == (size > 1)
    return logged(world), rows_of(world)


STORES: dict[str, Any] = {
    "iceberg": IcebergTable,
    "delta": DeltaTable,
    "parquet": WindowFiles,
}
CASES = [(MAP, name) for name in RULES] + [(SUMS, "single rows"), (SUMS, "conditions")]


@pytest.mark.sampled
@pytest.mark.parametrize(("sql", "name"), CASES, ids=lambda each: each)
def test_rows_counts_and_ids_are_the_same(tmp_path: Path, spark: Any, name: str, sql: str):
    apart = outcome(world_of(tmp_path / "1", spark, RULES[name], sql), 1)
    together = outcome(world_of(tmp_path / "2", spark, RULES[name], sql), 9)
    assert together == apart
    assert apart[0]["quality_check_log"]


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("kind", ["delta", "parquet", "csv"])
def test_other_targets_keep_rows_out_window_by_window(tmp_path: Path, spark: Any, kind: str):
    target = f"{{type: {kind}, window_column: day, mode: append}}"
    rules = RULES["kept apart"]
    apart = outcome(world_of(tmp_path / "1", spark, rules, MAP, target), 1)
    together = outcome(world_of(tmp_path / "2", spark, rules, MAP, target), 9)
    assert together == apart
    assert apart[1][1]


@pytest.mark.usefixtures("long")
def test_a_database_keeps_rows_out_window_by_window(
    tmp_path: Path, spark: Any, database_url: sa.URL
):
    url = database_url.render_as_string(hide_password=False)

    def of(size: int) -> Any:
        target = f"{{type: jdbc, connection: shop, table: n{size}, window_column: day}}"
        world = world_of(tmp_path / str(size), spark, RULES["kept apart"], MAP, target)
        world.write("logdriven.yaml", f"project: world\nconnections: {{shop: {{url: '{url}'}}}}")
        return outcome(world, size)

    apart, together = of(1), of(9)
    assert together == apart
    assert apart[1][1]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "point"),
    [(kind, point) for kind in STORES for point in (*POINTS, (STORES[kind], "publish", "after"))],
    ids=lambda each: (
        each if isinstance(each, str) else f"{each[2]} {each[1]} of {each[0].__name__}"
    ),
)
def test_a_pass_that_is_taken_over_has_good_and_bad_rows_once(
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    point: tuple[Any, str, str],
):
    """Bad rows are published first: what raises behind a store's publication has only these."""
    rules, target = RULES["kept apart"], f"{{type: {kind}, window_column: day}}"
    whole = world_of(tmp_path / "1", spark, rules, MAP, target)
    outcome(whole, 9)
    broken = world_of(tmp_path / "2", spark, rules, MAP, target)
    broken.catch_up(tables=["dim.known"], now=NOW)
    with monkeypatch.context() as patched:
        hurt(patched, point, RunLogError("as if the process were gone"))
        if point in POINTS:
            with pytest.raises(RunLogError):
                broken.catch_up(now=NOW)
        else:  # in the midst of a publication it is a step's failure
            events = broken.catch_up(now=NOW)
            assert not any(isinstance(event, WindowSucceeded) for event in events)
    broken.sql(EXPIRE)
    events = broken.catch_up(now=NOW)
    assert sum(isinstance(event, WindowSucceeded) for event in events) == len(DAYS)
    assert rows_of(broken) == rows_of(whole)


@pytest.mark.usefixtures("long")
def test_a_spark_without_an_aggregate_of_first_ids_finds_the_same(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
):
    newer = outcome(world_of(tmp_path / "1", spark, RULES["single rows"], MAP), 9)
    monkeypatch.setattr(inspector, "takes_first_of_several", lambda _: False)
    older = outcome(world_of(tmp_path / "2", spark, RULES["single rows"], MAP), 9)
    assert older == newer


@pytest.mark.usefixtures("long")
def test_the_first_ids_are_those_of_each_window(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inspector, "KEPT_IDS", 1)
    apart = outcome(world_of(tmp_path / "1", spark, RULES["single rows"], MAP), 1)
    together = outcome(world_of(tmp_path / "2", spark, RULES["single rows"], MAP), 9)
    monkeypatch.setattr(inspector, "takes_first_of_several", lambda _: False)
    older = outcome(world_of(tmp_path / "3", spark, RULES["single rows"], MAP), 9)
    assert apart == together == older


@pytest.mark.usefixtures("long")
def test_the_log_names_the_window_that_breaks_a_rule(tmp_path: Path, spark: Any):
    quality = {"id": ["v"], "min_pass": 60, "columns": {"n": ["not_null"]}}
    world = world_of(tmp_path, spark, quality, MAP)
    world.write("data/numbers.csv", "\n".join(["day,id,n,v", *LINES, "2022-01-04,9,,9"]))
    world.catch_up(now=NOW)
    together = [(f"0{day}", "DISCARDED") for day in DAYS]
    half = [("03", "DISCARDED"), ("04", "DISCARDED")]
    alone = [("03", "SUCCESS"), ("04", "FAILURE")]
    assert world.statuses("ods.numbers") == together + half + alone


OBSTACLES = {
    "sql: count(*) OVER (PARTITION BY id) < 2": "a window function reads rows of all windows",
    "sql: id < (SELECT max(id) FROM rows)": "it aggregates rows of all windows",
    "sql: SELECT id FROM rows GROUP BY id HAVING count(*) > 1": "GROUP BY must name a column",
    "sql: SELECT id FROM rows WHERE n > 2": "an id may be in several windows",
    "sql: 'day < :data_range_end'": "not only to select the rows of its window",
    "fails_when: id = :job_id": "it uses :job_id",
    "python: 'rules.py:bad'": "the effect of a function on rows of several windows is unknown",
}


@pytest.mark.parametrize("rule", OBSTACLES)
def test_rules_that_mix_windows_keep_them_apart(tmp_path: Path, rule: str):
    world = world_of(tmp_path, None, {}, MAP)
    text = TABLE.format(
        sql=MAP, target=ICEBERG, quality=f"{{id: [id], rows: [{{rule: r, {rule}}}]}}"
    )
    world.write("tables/numbers.yaml", text)
    world.write("tables/rules.py", "def bad(rows):\n    return rows.id > 1")
    project = load_project(world.root)
    obstacle = find_stretch_obstacle(project, project.table("ods.numbers"))
    assert obstacle is not None
    assert obstacle.startswith("step load: rule r: ")
    assert OBSTACLES[rule] in obstacle


@pytest.mark.usefixtures("long")
def test_references_to_rows_of_each_window_keep_them_apart(tmp_path: Path):
    world = world_of(tmp_path, None, RULES["references"], MAP)
    known = KNOWN.replace("    incremental_type: full\n", "").replace(", mode: overwrite", "")
    world.write("tables/known.yaml", known)
    table = TABLE.replace(", window: none", "")
    text = table.format(sql=MAP, target=ICEBERG, quality=json.dumps(RULES["references"]))
    world.write("tables/numbers.yaml", text)
    project = load_project(world.root)
    obstacle = find_stretch_obstacle(project, project.table("ods.numbers"))
    assert obstacle is not None
    assert "each window reads its own rows of dim.known" in obstacle
