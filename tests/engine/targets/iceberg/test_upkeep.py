"""Old snapshots go, small files become few; no reader, writer or zombie notices."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from itertools import chain
from typing import Any

import pytest

from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.targets import compaction, staged_files, upkeep
from logdriven_dagster.engine.targets.garbage import find_garbage
from logdriven_dagster.engine.targets.iceberg import upkeep as iceberg_upkeep
from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.upkeep import Compaction, Expiry, Upkept
from tests.builders import day, days
from tests.engine.laboratory import Lab, held
from tests.needs import rarely

NOW = timedelta(seconds=-60)
"""Older than this is everything."""
MODES = {
    "overwrite_window": {},
    "append": {"mode": "append"},
    "overwrite": {"mode": "overwrite"},
    "upsert": {"mode": "upsert", "key": ["v"]},
    "time column": {"window_column": "at"},
    "clock column": {"window_column": "clock"},
    "date column": {"window_column": "day"},
}
QUERY = """
    SELECT timestamp(:data_range_start) AS at, to_timestamp_ntz(:data_range_start) AS clock,
      date(:data_range_start) AS day, int(id) AS v, '${who}' AS who
    FROM range(1, 7, 1, 6)"""


@pytest.fixture(params=["overwrite_window", "upsert", *rarely("overwrite", "time column")])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def crowded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Every window of every table is written in as many files as the query has partitions."""
    monkeypatch.setattr(staged_files, "_SMALL_BYTES", -1)
    return lab


def make(lab: Lab, mode: str = "overwrite_window") -> None:
    target = {"type": "iceberg", **MODES[mode]}
    lab.table("ods.t", {"sql": QUERY, "target": target}, variables={"who": "first"})


def run(lab: Lab, n: int, who: str = "first") -> Any:
    return lab.run("ods.t", day(n), variables={"who": who})


def who(lab: Lab) -> list[tuple[int, int, str]]:
    """Day, value and writer of each row."""
    return sorted((row[2].day, row[3], row[4]) for row in lab.rows("ods.t"))


def everything(lab: Lab) -> list[Any]:
    """All rows as they are stored, with the technical column."""
    rows = table(lab).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: sorted((name, str(v)) for name, v in row.items()))


def table(lab: Lab) -> Any:
    return lab.engine._catalog.load_table("ods.t")


def files(lab: Lab) -> int:
    return len(list(table(lab).scan().plan_files()))


def compact(lab: Lab, **options: Any) -> Upkept:
    chosen = Compaction(**options)
    return upkeep.compact_files(lab.project, lab.spark, "ods.t", chosen)


def expire(
    lab: Lab, older_than: timedelta = NOW, keep: int = 1, unfinished: Collection[Any] = ()
) -> Upkept:
    """`unfinished`: days whose attempts have not ended."""
    named = {("ods.t", f"202201{n:02}000000") for n in unfinished}
    options = Expiry(keep)
    return upkeep.expire_snapshots(lab.project, "ods.t", older_than, options, lambda: named)


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
    assert int(table(crowded).current_snapshot().summary["total-records"]) == len(rows)
    assert compact(crowded, min_files=2).text == "no small files"


@pytest.mark.sampled
def test_after_upkeep_windows_are_replaced_as_before(crowded: Lab, mode: str):
    """Also an old one: it replaces its own rows, and never those of a newer window."""
    make(crowded, mode)
    for n, writer in ((1, "first"), (2, "first"), (1, "again"), (3, "first"), (2, "again")):
        run(crowded, n, writer)
        compact(crowded)
        expire(crowded)
        clean(crowded)
    writers = {1: "again", 2: "again", 3: "first"}
    if mode in ("upsert", "overwrite"):
        writers = {3: "first"}
    assert who(crowded) == [(n, v, writers[n]) for n in writers for v in range(1, 7)]


def test_a_file_of_several_windows_is_left_alone(crowded: Lab):
    """They were one window when it was written."""
    query = """
        SELECT :data_range_start + make_dt_interval(id % 2) AS at, id AS v, '${who}' AS who
        FROM range(1, 13, 1, 6)"""
    step = {"sql": query, "target": {"type": "iceberg", "window_column": "at"}}
    crowded.table("ods.t", step, variables={"who": "first"}, period="2 days")
    crowded.run("ods.t", days(1, 3))
    crowded.table("ods.t", step, variables={"who": "first"})
    assert files(crowded) == 6
    assert compact(crowded).text == "no small files"


def test_a_large_file_is_left_alone_and_few_are_too(crowded: Lab):
    make(crowded)
    run(crowded, 1)
    assert compact(crowded, min_files=7).text == "no small files"
    assert compact(crowded, target_size=100).text == "no small files"
    size = max(file.file.file_size_in_bytes for file in table(crowded).scan().plan_files())
    compact(crowded, target_size=3 * size)
    assert files(crowded) == 2
    assert len(who(crowded)) == 6


def test_rows_are_divided_by_a_key_of_any_name(crowded: Lab):
    query = "SELECT id AS `the.id` FROM range(1, 7, 1, 6)"
    target = {"type": "iceberg", "mode": "upsert", "key": ["the.id"]}
    crowded.table("ods.t", {"sql": query, "target": target})
    run(crowded, 1)
    size = max(file.file.file_size_in_bytes for file in table(crowded).scan().plan_files())
    compact(crowded, target_size=3 * size)
    assert files(crowded) == 2
    assert sorted(row[0] for row in crowded.rows("ods.t")) == [1, 2, 3, 4, 5, 6]


def test_other_tables_are_passed_over_with_a_note(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": {"type": "parquet"}})
    run(lab, 1)
    assert compact(lab).text == expire(lab).text == "skipped: its targets do not keep old versions"


def test_a_table_that_was_never_published_has_nothing_to_keep_up(lab: Lab):
    make(lab)
    assert compact(lab).text == expire(lab).text == "ods.t was never published"


class KilledError(BaseException):
    """The process is gone."""


def killed(*_: Any, **__: Any) -> Any:
    raise KilledError


def after(work: Callable[..., Any]) -> Callable[..., Any]:
    def die(*arguments: Any, **named: Any) -> None:
        work(*arguments, **named)
        raise KilledError

    return die


POINTS = {
    "before it writes": (staged_files, "run_action", killed),
    "when all is written": (staged_files, "rows_of_files", killed),
    "before it commits": (compaction, "_commit", killed),
    "when it has committed": (compaction, "_commit", after(compaction._commit)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_compaction_loses_and_doubles_nothing(crowded: Lab, point: str):
    make(crowded)
    for n in (1, 2):
        run(crowded, n)
    rows = everything(crowded)
    module, name, death = POINTS[point]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "remove", lambda _: None)  # the dead do not tidy
        patch.setattr(module, name, death)
        with pytest.raises(KilledError):
            compact(crowded)
    assert everything(crowded) == rows
    clean(crowded)
    compact(crowded)
    expire(crowded)
    assert (everything(crowded), files(crowded)) == (rows, 2)


def test_what_a_dead_compaction_left_is_garbage_after_an_hour(crowded: Lab, monkeypatch):
    make(crowded)
    run(crowded, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "remove", lambda _: None)
        patch.setattr(compaction, "_commit", killed)
        with pytest.raises(KilledError):
            compact(crowded)
    (folder,) = (crowded.warehouse / "ods/t/data").glob("0-compacted*")
    clean(crowded)
    assert folder.exists()
    monkeypatch.setattr("logdriven_dagster.engine.storage.garbage._REWRITTEN_WITHIN", NOW)
    clean(crowded)
    assert not folder.exists()


@pytest.mark.sampled
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_window_published_during_a_compaction_waits_for_the_next_one(
    crowded: Lab, n, monkeypatch
):
    make(crowded)
    for first in (1, 2):
        run(crowded, first)

    def late(*arguments: Any) -> Any:
        run(crowded, n, "meanwhile")
        return compaction.commit(*arguments)

    monkeypatch.setattr(upkeep, "commit", late)
    done = compact(crowded)
    assert files(crowded) == {1: 7, 2: 7, 3: 8}[n]
    assert ("1 windows changed meanwhile" in done.text) == (n != 3)
    assert {writer for d, _, writer in who(crowded) if d == n} == {"meanwhile"}
    assert len(who(crowded)) == (12 if n != 3 else 18)
    folders = crowded.warehouse.glob("ods/t/data/0-*")
    assert len(list(folders)) == (1 if n != 3 else 2)


@pytest.mark.usefixtures("long")
def test_files_that_expire_while_they_are_rewritten_are_left_out(crowded: Lab, monkeypatch):
    make(crowded)
    for n in (1, 2):
        run(crowded, n)
    action = staged_files.run_action

    def late(*arguments: Any) -> Any:
        if not again:
            again.append(run(crowded, 1, "again"))
            expire(crowded)
        return action(*arguments)

    again: list[Any] = []
    monkeypatch.setattr(staged_files, "run_action", late)
    done = compact(crowded)
    assert (done.files, files(crowded)) == (6, 7)
    assert {(n, writer) for n, _, writer in who(crowded)} == {(1, "again"), (2, "first")}


@pytest.mark.sampled
def test_a_compaction_between_the_last_look_and_the_commit_is_no_loss(crowded: Lab, mode: str):
    make(crowded, mode)
    run(crowded, 1)
    with crowded.session("ods.t", day(1), variables={"who": "second"}) as session:
        session.stage(crowded.project.table("ods.t").steps[0])
        looks: list[Upkept] = []

        def look() -> None:
            if not looks:
                looks.append(compact(crowded))
                expire(crowded)

        session.publish("step_1", look)
    assert looks[0].files == 6
    assert who(crowded) == [(1, v, "second") for v in range(1, 7)]


def test_publications_and_upkeep_run_side_by_side(crowded: Lab, monkeypatch):
    make(crowded)
    run(crowded, 1)
    monkeypatch.setattr(Lab, "project", crowded.project)  # which is a file that all would write

    def publish(n: int) -> None:
        for writer in ("first", "second", "third"):
            run(crowded, n, writer)

    def keep_up(_: int) -> None:
        for _ in range(4):
            compact(crowded)
            expire(crowded, timedelta(seconds=2))

    with ThreadPoolExecutor(4) as pool:
        work = chain(((publish, n) for n in (2, 3)), ((keep_up, n) for n in (1, 2)))
        for done in [pool.submit(job, n) for job, n in work]:
            done.result()
    expected = [(1, "first"), (2, "third"), (3, "third")]
    assert who(crowded) == [(n, v, writer) for n, writer in expected for v in range(1, 7)]


def test_snapshots_go_with_the_files_that_only_they_name(lab: Lab):
    make(lab)
    for writer in ("first", "second", "third"):
        run(lab, 1, writer)
    old = {path.name for path in lab.warehouse.glob("ods/t/data/*")}
    options = Expiry()
    wanted = upkeep.expirable(lab.project, "ods.t", NOW, options, lambda: ())
    done = expire(lab)
    assert done.text == "2 of 3 snapshots removed"
    assert (wanted.files, wanted.bytes) == (done.files, done.bytes)
    assert len(table(lab).snapshots()) == 1
    assert len(list(lab.warehouse.glob("ods/t/data/*"))) == len(old) - 2
    assert {writer for *_, writer in who(lab)} == {"third"}
    assert expire(lab).text == "no old snapshots"
    assert list(find_garbage(lab.project, lambda *_: False, NOW)) == []


def test_the_newest_snapshots_stay_at_any_age(lab: Lab):
    make(lab)
    for n in range(1, 6):
        run(lab, n)
    expire(lab, keep=3)
    assert len(table(lab).snapshots()) == 3


def test_the_age_of_a_snapshot_counts_from_when_it_was_replaced(lab: Lab, monkeypatch):
    """A reader may have begun with it until then."""
    make(lab)
    for n in (1, 2):
        run(lab, n)
    first, second = table(lab).snapshots()
    between = timedelta(milliseconds=(second.timestamp_ms - first.timestamp_ms) // 2)
    now = datetime.now(timezone.utc)

    class Standing(datetime):
        """A clock that stands still: catalogs take their time."""

        @classmethod
        def now(cls, _zone: Any = None) -> datetime:
            return now

    monkeypatch.setattr(iceberg_upkeep, "datetime", Standing)
    age = timedelta(milliseconds=now.timestamp() * 1000 - second.timestamp_ms)
    assert expire(lab, age + between).text == "no old snapshots"
    assert expire(lab, age - timedelta(seconds=5)).text == "1 of 2 snapshots removed"


def test_tags_stay(lab: Lab):
    make(lab)
    run(lab, 1)
    tagged = table(lab).current_snapshot().snapshot_id
    table(lab).manage_snapshots().create_tag(tagged, "audit").commit()
    run(lab, 1, "second")
    expire(lab)
    assert table(lab).scan(snapshot_id=tagged).to_arrow().num_rows == 6


@pytest.mark.sampled
def test_a_takeover_after_upkeep_finds_what_the_dead_attempt_published(crowded: Lab, mode: str):
    make(crowded, mode)
    step = crowded.project.table("ods.t").steps[0]
    with crowded.session("ods.t", day(1), variables={"who": "dead"}) as session:
        (staged,) = session.stage(step)
        (published,) = session.publish("step_1", held)
    run(crowded, 2, "later")
    rows = everything(crowded)
    compact(crowded)
    expire(crowded, unfinished=[1])
    with crowded.session("ods.t", day(1), variables={"who": "successor"}) as session:
        session.fence()
        assert session.restore(step, [staged.state]) is not None
        (again,) = session.publish("step_1", held)
    assert again.snapshot_id == (None if mode == "overwrite" else published.snapshot_id)
    assert everything(crowded) == rows


@pytest.mark.sampled
def test_a_takeover_that_finds_nothing_after_upkeep_leaves_the_same_rows(crowded: Lab, mode: str):
    """Only of windows that the log does not know as unfinished; nothing is doubled even then."""
    make(crowded, mode)
    step = crowded.project.table("ods.t").steps[0]
    with crowded.session("ods.t", day(1), variables={"who": "dead"}) as session:
        (staged,) = session.stage(step)
        session.publish("step_1", held)
    run(crowded, 2, "later")
    rows = who(crowded)
    compact(crowded)
    expire(crowded)
    with crowded.session("ods.t", day(1), variables={"who": "dead"}) as session:
        session.fence()
        if session.restore(step, [staged.state]) is None:
            session.stage(step)
        session.publish("step_1", held)
    assert who(crowded) == rows


@pytest.mark.sampled
def test_a_fenced_runner_stays_fenced_after_upkeep(crowded: Lab, mode: str):
    make(crowded, mode)
    run(crowded, 1)
    zombie = crowded.session("ods.t", day(1), variables={"who": "zombie"})
    successor = crowded.session("ods.t", day(1), variables={"who": "successor"})
    with zombie as zombie, successor as successor:
        zombie.stage(crowded.project.table("ods.t").steps[0])
        successor.fence()
        compact(crowded)
        run(crowded, 2)
        expire(crowded, unfinished=[1])
        with pytest.raises(AttemptLostError):
            zombie.publish("step_1", held)


def test_fences_never_hide_how_new_a_replaced_table_is(lab: Lab):
    make(lab, "overwrite")
    run(lab, 2)
    for n in (3, 4):
        with lab.session("ods.t", day(n), variables={"who": "failed"}) as session:
            session.fence()
    expire(lab)
    assert run(lab, 1).published[0].rows == 0
    assert {n for n, *_ in who(lab)} == {2}
