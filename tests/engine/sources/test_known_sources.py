"""Sources of files over many windows: looked at once, and again when they change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.engine.sources import known_sources
from logdriven_dagster.engine.sources.file_rows import local_path
from logdriven_dagster.engine.sources.files.checks import json_keys
from logdriven_dagster.engine.window import engine as window
from logdriven_dagster.model.attempts import CURRENT_FILE_LENGTH
from tests.builders import day
from tests.engine.laboratory import Lab, Ran

pytestmark = pytest.mark.connect

TARGET = {"type": "parquet"}
Windows = Callable[[int], Ran]


def windows(lab: Lab, *steps: dict[str, Any]) -> Windows:
    """Runs days of a table with these steps, all by one engine; `${number}` is the day's."""
    lab.table("ods.t", *steps, variables={"number": 0})
    engine = lab.engine

    def run(n: int) -> Ran:
        with engine.open_session(
            [lab.window_run("ods.t", day(n), variables={"number": n})]
        ) as session:
            return lab.finish(session, "ods.t")

    return run


def counts_and_names(ran: Ran) -> tuple[int | None, int | None, tuple[str, ...]]:
    """Rows of the source and of the target, and the files that were read."""
    return ran.counts.source, ran.counts.target, ran.staged[-1].current_files


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [None, "a INT"])
def test_a_file_that_is_added_changed_or_removed_is_seen(lab: Lab, columns: str | None):
    source = {"type": "csv", "path": "in", "header": True, "columns": columns}
    run = windows(lab, {"source": source, "target": TARGET})
    lab.file("in/a.csv", "a\n1\n")
    for n in (1, 2, 3):
        assert counts_and_names(run(n)) == (1, 1, ("a.csv",))
    lab.file("in/b.csv", "a\n2\n")
    for n in (4, 5):
        assert counts_and_names(run(n)) == (2, 2, ("a.csv", "b.csv"))
    lab.file("in/a.csv", "a\n1\n3\n").with_name("b.csv").unlink()
    for n in (6, 7):
        assert counts_and_names(run(n)) == (2, 2, ("a.csv",))
    assert len(lab.rows("ods.t")) == 3 + 4 + 4


def test_a_file_behind_a_link_to_a_folder_is_seen(lab: Lab):
    options = {"recursiveFileLookup": "true"}
    source = {"type": "csv", "path": "in", "header": True, "options": options}
    run = windows(lab, {"source": source, "target": TARGET})
    lab.file("in/a.csv", "a\n1\n")
    lab.file("elsewhere/b.csv", "a\n2\n")
    (lab.root / "in/linked").symlink_to(lab.root / "elsewhere")
    assert counts_and_names(run(1)) == (2, 2, ("a.csv", "b.csv"))
    lab.file("elsewhere/c.csv", "a\n3\n")
    assert counts_and_names(run(2)) == (3, 3, ("a.csv", "b.csv", "c.csv"))


@pytest.mark.usefixtures("long")
def test_thousands_of_file_names_are_cut_to_the_limit_of_the_log(lab: Lab):
    for n in range(300):
        lab.file(f"in/{n:03}.csv", "a\n1\n")
    run = windows(
        lab, {"source": {"type": "csv", "path": "in", "columns": "a STRING"}, "target": TARGET}
    )
    for n in (1, 2):
        source, _, names = counts_and_names(run(n))
        assert source == 600
        assert names == tuple(f"{n:03}.csv" for n in range(129))  # 8 characters each, with a comma
    assert len(",".join(names)) > CURRENT_FILE_LENGTH  # which the log tells by its note


@pytest.mark.usefixtures("long")
def test_paths_that_differ_for_every_window_do_not_pile_up(lab: Lab, monkeypatch):
    monkeypatch.setattr(known_sources, "_MOST_SOURCES", 2)
    kept = known_sources.KnownSources()
    monkeypatch.setattr(window, "KnownSources", lambda: kept)
    source = {"type": "csv", "path": "${number}.csv", "header": True}
    run = windows(lab, {"source": source, "target": TARGET})
    for n in (1, 2, 3, 4, 1, 4):
        file = lab.file(f"{n}.csv", f"a\n{n}\n")
        assert counts_and_names(run(n)) == (1, 1, (file.name,))
        assert len(kept._known) <= 2
    assert len(kept._known) == 2
    assert lab.rows("ods.t") == [("1",), ("2",), ("3",), ("4",)]


def test_a_column_that_is_new_is_seen(lab: Lab):
    run = windows(lab, {"source": {"type": "json", "path": "in.json"}, "target": TARGET})
    lab.file("in.json", '{"a": 1}\n')
    run(1)
    run(2)
    lab.file("in.json", '{"a": 1, "b": 2}\n')
    run(3)
    assert lab.rows("ods.t") == [(1, 2), (1, None), (1, None)]


def test_two_steps_of_a_window_have_frames_of_their_own(lab: Lab):
    lab.file("in.csv", "a\n1\n2\n")
    source = {"type": "csv", "path": "in.csv", "header": True, "columns": "a INT"}
    lab.file("tables/both.py", BOTH)
    run = windows(
        lab,
        {"step": "first", "source": source},
        {"source": source, "python": "both.py:build", "target": TARGET},
    )
    for n in (1, 2):
        assert run(n).counts.target == 1


BOTH = """
def build(source, first):
    return source.join(first, source.a < first.a).select(source.a, first.a.alias("b"))
"""


def test_only_the_partitions_of_a_window_are_read(lab: Lab):
    days = "SELECT DATE'2022-01-01' + cast(id AS INT) AS on_day, id FROM range(4)"
    lab.spark.sql(days).write.partitionBy("on_day").parquet(str(lab.root / "in"))
    source = {"type": "parquet", "path": "in", "window_column": "on_day"}
    run = windows(lab, {"source": source, "target": TARGET})
    assert [counts_and_names(run(n))[:2] for n in (1, 2, 3)] == [(1, 1)] * 3
    assert [row[0] for row in lab.rows("ods.t")] == [0, 1, 2]


@pytest.mark.usefixtures("long")
def test_keys_of_json_are_looked_at_once_for_each_state_of_the_files(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    looks: list[str] = []
    action = json_keys.run_action
    monkeypatch.setattr(
        json_keys, "run_action", lambda spark, *rest: looks.append("") or action(spark, *rest)
    )
    run = windows(
        lab, {"source": {"type": "json", "path": "in", "columns": "a INT"}, "target": TARGET}
    )
    lab.file("in/a.json", '{"a": 1}\n')
    run(1), run(2)
    assert len(looks) == 1
    lab.file("in/b.json", '{"a": 2}\n')
    run(3), run(4)
    assert len(looks) == 2


FILES = ("a/1.csv", "a/22.csv", "a/_hidden.csv", "a/.gone.csv", "a/3.txt", "b/4.csv", "c=1/5.csv")
PATTERNS = (
    "a/[^_.]*.csv",
    "[^_.]*/[^_.]*.csv",
    "[^_.]*",
    "a/[^_.].csv",
    "a/??.csv",
    "a/*",
    "[^_.]*=*",
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_state_of_a_pattern_has_each_file_that_spark_reads(lab: Lab, pattern: str):
    for name in FILES:
        lab.file(name, "x")
    read = lab.spark.read.text(f"{lab.root}/{pattern}").inputFiles()
    found = known_sources.fingerprint(f"{lab.root}/{pattern}")
    assert found is not None
    assert {local_path(uri) for uri in read} <= {path for path, _, _ in found}


@pytest.mark.parametrize("pattern", ["a/{1,2}.csv", "a/[12].csv", "b/*.csv", r"a/\*.csv"])
def test_the_state_of_other_patterns_is_not_known(tmp_path: Path, pattern: str):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/1.csv").touch()
    assert known_sources.fingerprint(f"{tmp_path}/{pattern}") is None
