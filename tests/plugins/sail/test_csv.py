"""CSV files on Sail: the rows that Spark reads, or no window at all."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.opening import open_runner
from tests.builders import at
from tests.plugins.sail.projects import log_of, published, run_on_sail

COLUMNS = (
    "id INT, big BIGINT, name STRING, amount DECIMAL(12,2), whole DECIMAL(5,0), x DOUBLE, "
    "yes BOOLEAN, day DATE, at TIMESTAMP"
)
HEADER = "id,big,name,amount,whole,x,yes,day,at"
GOOD = f"""{HEADER}
1,999999999999999999,plain,1.25,99999,1.5,true,2024-02-29,2024-01-01 00:00:00

-2147483648,-1, spaced ,-0.01,-1,-1.797e308,false,0001-01-01,2024-01-01T23:59:59.999999Z
2147483647,0,it's ü 😀 \\ #,9999999999.99,0,5e-324,,9999-12-31,2024-01-01 12:00:00.5
,,,,,,,,2024-01-01 01:02:03
7,8,#no comment,0.1,00001,123456789.123456789e-3,true,1582-10-15,2024-01-01 10:00:00
8,8,after the window,0,1,0.1,true,2024-01-01,2024-01-02 00:00:00
"""
BAD = {
    "few": f"{HEADER}\n1,2,a\n",
    "many": f"{HEADER}\n1,2,a,1,1,1,true,2024-01-01,2024-01-01 00:00:00,more\n",
    "header": f"{HEADER}x\n",
    "order": "big,id,name,amount,whole,x,yes,day,at\n",
    "quote": f'{HEADER}\n1,2,"a",1,1,1,true,2024-01-01,2024-01-01 00:00:00\n',
    "long_int": f"{HEADER}\n2147483648,2,a,1,1,1,true,2024-01-01,2024-01-01 00:00:00\n",
    "word": f"{HEADER}\n1,two,a,1,1,1,true,2024-01-01,2024-01-01 00:00:00\n",
    "digits": f"{HEADER}\n1,2,a,1.255,1,1,true,2024-01-01,2024-01-01 00:00:00\n",
    "no_day": f"{HEADER}\n1,2,a,1,1,1,true,2023-02-29,2024-01-01 00:00:00\n",
    "no_time": f"{HEADER}\n1,2,a,1,1,1,true,2024-01-01,2024-02-30 00:00:00\n",
    "hour": f"{HEADER}\n1,2,a,1,1,1,true,2024-01-01,2024-01-01 25:00:00\n",
    "maybe": f"{HEADER}\n1,2,a,1,1,1,maybe,2024-01-01,2024-01-01 00:00:00\n",
    "nan": f"{HEADER}\n1,2,a,1,1,x,true,2024-01-01,2024-01-01 00:00:00\n",
    "empty": "",
}


def table(root: Path, name: str, columns: str = COLUMNS, **source: Any) -> None:
    given = {"type": "csv", "path": f"{name}.csv", "header": True, "columns": columns}
    step = {"step": "load", "source": {**given, **source}, "target": {"type": "parquet"}}
    values = {"table": f"csv.{name}", "period": "1 day", "default_start": "2024-01-01"}
    path = root / f"tables/{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({**values, "steps": [step]}))


def project(root: Path, engine: str) -> Path:
    settings = {"project": "csv", "timezone": "UTC", "spark": {"engine": engine}}
    (root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    return root


def test_rows_and_counts_are_those_of_spark(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sail, oracle = (project(tmp_path_factory.mktemp(each), each) for each in ("sail", "spark"))
    for root in (sail, oracle):
        (root / "good.csv").write_text(GOOD)
        table(root, "good", window_column="at")
        (root / "one.csv").write_text("name\nx\n\ny\n")
        table(root, "one", "name STRING")
        (root / "dos.csv").write_bytes(b"name;id\r\na,b;1\r\n;\r\n")
        table(root, "dos", "name STRING, id INT", sep=";")
    done = run_on_sail(sail, "run", "--now", "2024-01-02")
    assert done.returncode == 0, done.stdout + done.stderr
    list(open_runner(load_project(oracle), spark=lambda: spark).catch_up(at("2024-01-02")))
    query = "SELECT source_count, target_count FROM step_log s JOIN job_log j USING (job_id)"
    query += " ORDER BY j.job_name"
    assert log_of(sail, query) == log_of(oracle, query)
    for name in ("csv.good", "csv.one", "csv.dos"):
        assert published(sail, name) == published(oracle, name)
    assert len(published(sail, "csv.good")) == 5


@pytest.mark.usefixtures("long")
def test_what_is_not_of_plain_form_fails_its_window(tmp_path: Path) -> None:
    project(tmp_path, "sail")
    for name, text in BAD.items():
        (tmp_path / f"{name}.csv").write_text(text)
        table(tmp_path, name)
    (tmp_path / "latin.csv").write_bytes(f"{HEADER}\n1,2,\xe4,1,1,1,,,\n".encode("latin1"))
    table(tmp_path, "latin")
    run_on_sail(tmp_path, "run", "--now", "2024-01-02")
    states = log_of(tmp_path, "SELECT job_name, status FROM job_log ORDER BY job_name")
    assert states == [
        {"job_name": f"csv.{name}", "status": "FAILURE"} for name in sorted([*BAD, "latin"])
    ]


@pytest.mark.usefixtures("long")
def test_files_of_a_folder_are_those_of_spark_or_refused(tmp_path: Path) -> None:
    project(tmp_path, "sail")
    for name, other in (("ending", "b.txt"), ("folder", "day=1/b.csv"), ("hidden", ".b.csv")):
        path = tmp_path / name / other
        path.parent.mkdir(parents=True)
        for each in (path, tmp_path / name / "a.csv", tmp_path / name / "_hidden.csv"):
            each.write_text(f"name\n{each.name}\n")
        table(tmp_path, name, "name STRING", path=name)
    run_on_sail(tmp_path, "run", "--now", "2024-01-02")
    query = "SELECT error FROM step_log s JOIN job_log j USING (job_id) ORDER BY j.job_name"
    ending, folder, _ = log_of(tmp_path, query)
    for each in (ending, folder):
        assert "which is not supported on Sail" in each["error"]
    assert [row["name"] for row in published(tmp_path, "csv.hidden")] == ["a.csv"]


@pytest.mark.usefixtures("long")
def test_a_folder_may_have_a_sharp_in_its_name(tmp_path: Path) -> None:
    project(tmp_path, "sail")
    (tmp_path / "a#1").mkdir()
    (tmp_path / "a#1/one.csv").write_text("name\nx\n")
    table(tmp_path, "one", "name STRING", path="a#1")
    run_on_sail(tmp_path, "run", "--now", "2024-01-02")
    assert [row["name"] for row in published(tmp_path, "csv.one")] == ["x"]


@pytest.mark.usefixtures("long")
def test_odd_characters_in_a_path_fail_the_window(tmp_path: Path) -> None:
    root = tmp_path / "a%20b"
    root.mkdir()
    project(root, "sail")
    (root / "one.csv").write_text("name\nx\n")
    table(root, "one", "name STRING")
    run_on_sail(root, "run", "--now", "2024-01-02")
    assert [row["status"] for row in log_of(root, "SELECT status FROM step_log")] == ["FAILURE"]
