"""Files that were replaced go, small files become few, in Delta tables; no reader notices."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.targets import compaction, staged_files, upkeep
from logdriven_dagster.engine.targets.garbage import find_garbage
from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.upkeep import Compaction, Expiry, Upkept
from tests.builders import day
from tests.engine.laboratory import Lab, held

NOW = timedelta(seconds=-60)
"""Older than this is everything."""
MODES = {
    "overwrite_window": {},
    "overwrite": {"mode": "overwrite"},
    "upsert": {"mode": "upsert", "key": ["v"]},
    "clock column": {"window_column": "clock"},
    "date column": {"window_column": "day"},
}
QUERY = """
    SELECT timestamp(:data_range_start) AS at, to_timestamp_ntz(:data_range_start) AS clock,
      date(:data_range_start) AS day, int(id) AS v, '${who}' AS who
    FROM range(1, 7, 1, 6)"""


@pytest.fixture
def crowded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Every window of every table is written in as many files as the query has partitions."""
    monkeypatch.setattr(staged_files, "_SMALL_BYTES", -1)
    return lab


def make(lab: Lab, mode: str = "overwrite_window") -> None:
    target = {"type": "delta", **MODES[mode]}
    lab.table("ods.t", {"sql": QUERY, "target": target}, variables={"who": "first"})


def run(lab: Lab, n: int, who: str = "first") -> Any:
    return lab.run("ods.t", day(n), variables={"who": who})


def who(lab: Lab) -> list[tuple[int, int, str]]:
    """Day, value and writer of each row."""
    return sorted((row[2].day, row[3], row[4]) for row in lab.rows("ods.t"))


def folder(lab: Lab) -> Path:
    return lab.warehouse / "ods/t"


def log(lab: Lab) -> DeltaTable:
    return DeltaTable(folder(lab))


def files(lab: Lab) -> int:
    return len(log(lab).file_uris())


def on_disk(lab: Lab) -> int:
    return len(list(folder(lab).glob("data/**/*.parquet")))


def everything(lab: Lab) -> list[Any]:
    """All rows as they are stored, with the technical column."""
    rows = log(lab).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: sorted((name, str(v)) for name, v in row.items()))


def compact(lab: Lab, **options: Any) -> Upkept:
    return upkeep.compact_files(lab.project, lab.spark, "ods.t", Compaction(**options))


def expire(lab: Lab, older_than: timedelta = NOW, keep: int = 1) -> Upkept:
    return upkeep.expire_snapshots(lab.project, "ods.t", older_than, Expiry(keep), list)


def clean(lab: Lab) -> None:
    for item in find_garbage(lab.project, lambda *_: False, NOW):
        item.remove()


@pytest.mark.sampled
@pytest.mark.parametrize("mode", MODES)
def test_small_files_become_one_for_each_window_with_the_same_rows(crowded: Lab, mode: str):
    make(crowded, mode)
    for n in (1, 2):
        run(crowded, n)
    rows, before = everything(crowded), files(crowded)
    wanted = upkeep.compactable(crowded.project, "ods.t", Compaction(min_files=2))
    done = compact(crowded, min_files=2)
    windows = 1 if mode in ("overwrite", "upsert") else 2
    assert (done.files, files(crowded)) == (before, windows)
    assert (wanted.files, wanted.rows, wanted.bytes) == (done.files, done.rows, done.bytes)
    assert everything(crowded) == rows
    assert compact(crowded, min_files=2).text == "no small files"


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["overwrite_window", "upsert"])
def test_after_upkeep_windows_are_replaced_as_before(crowded: Lab, mode: str):
    """Also an old one: it replaces its own rows, and never those of a newer window."""
    make(crowded, mode)
    for n, writer in ((1, "first"), (2, "first"), (1, "again"), (3, "first"), (2, "again")):
        run(crowded, n, writer)
        compact(crowded)
        expire(crowded)
        clean(crowded)
    writers = {1: "again", 2: "again", 3: "first"} if mode == "overwrite_window" else {3: "first"}
    assert who(crowded) == [(n, v, writers[n]) for n in writers for v in range(1, 7)]


class KilledError(BaseException):
    """The process is gone."""


def killed(*_: Any, **__: Any) -> Any:
    raise KilledError


@pytest.mark.sampled
@pytest.mark.parametrize("point", ["run_action", "rows_of_files", "_commit"])
def test_a_killed_compaction_loses_and_doubles_nothing(crowded: Lab, point: str, monkeypatch):
    make(crowded)
    for n in (1, 2):
        run(crowded, n)
    rows = everything(crowded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "remove", lambda _: None)  # the dead do not tidy
        module = compaction if point == "_commit" else staged_files
        patch.setattr(module, point, killed)
        with pytest.raises(KilledError):
            compact(crowded)
    assert everything(crowded) == rows
    monkeypatch.setattr("logdriven_dagster.engine.storage.garbage._REWRITTEN_WITHIN", NOW)
    clean(crowded)
    compact(crowded)
    expire(crowded)
    assert (everything(crowded), files(crowded), on_disk(crowded)) == (rows, 2, 2)


def test_a_window_published_during_a_compaction_waits_for_the_next_one(crowded: Lab, monkeypatch):
    make(crowded)
    for n in (1, 2):
        run(crowded, n)

    def late(*arguments: Any) -> Any:
        run(crowded, 1, "meanwhile")
        return compaction.commit(*arguments)

    monkeypatch.setattr(upkeep, "commit", late)
    assert "1 windows changed meanwhile" in compact(crowded).text
    assert {writer for d, _, writer in who(crowded) if d == 1} == {"meanwhile"}
    assert len(who(crowded)) == 12


def test_replaced_files_go_when_they_are_old_and_active_ones_stay(lab: Lab):
    make(lab)
    for n in (1, 2, 1, 1):
        run(lab, n)
    before = on_disk(lab)
    assert expire(lab, timedelta(hours=1)).text == "no old files"
    told = upkeep.expirable(lab.project, "ods.t", NOW, Expiry(), list)
    assert (told.files, on_disk(lab)) == (2, before)
    assert (expire(lab).files, on_disk(lab)) == (2, before - 2)
    assert expire(lab).text == "no old files"
    assert len(who(lab)) == 12


def test_files_of_the_newest_versions_stay_at_any_age(lab: Lab):
    make(lab)
    for _ in range(3):
        run(lab, 1)
    expire(lab, keep=2)
    version = log(lab).version()
    assert len(DeltaTable(folder(lab), version=version - 1).to_pyarrow_table()) == 6


def test_clean_leaves_replaced_files_to_readers_of_older_versions(lab: Lab):
    make(lab)
    for _ in range(2):
        run(lab, 1)
    before = on_disk(lab)
    clean(lab)
    assert on_disk(lab) == before


def test_a_fenced_runner_stays_fenced_after_upkeep(lab: Lab):
    make(lab)
    run(lab, 1)
    with (
        lab.session("ods.t", day(1), variables={"who": "zombie"}) as zombie,
        lab.session("ods.t", day(1), variables={"who": "second"}) as successor,
    ):
        zombie.stage(lab.project.table("ods.t").steps[0])
        successor.fence()
        expire(lab)
        compact(lab, min_files=2)
        with pytest.raises(AttemptLostError):
            zombie.publish("step_1", held)
