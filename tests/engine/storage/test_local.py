"""The verbs of storage on folders of this machine: whole or not at all, whoever dies or races."""

import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from logdriven_dagster.config.locations import as_path, resolve_location
from logdriven_dagster.engine.storage.local import LocalStorage
from logdriven_dagster.engine.storage.locations import Folder, storage_of
from logdriven_dagster.engine.storage.staging import data_files
from logdriven_dagster.engine.storage.storage import DRAFT
from logdriven_dagster.errors import TerminalStepError

STORAGE = LocalStorage()
RACERS = 4
ROUNDS = 50


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return resolve_location(tmp_path / "lake [1] %20 ü")


def text(location: str) -> str:
    with STORAGE.open(location) as file:
        return file.read().decode()


def test_a_location_is_one_text_however_a_path_is_spelt():
    spellings = [
        "/lake/ods",
        "file:/lake/ods",
        "file:///lake/ods",
        "/lake/./dwd/../ods/",
        "/lake//ods",
    ]
    assert {resolve_location(text) for text in spellings} == {"file:///lake/ods"}
    assert resolve_location("s3://lake/ods") == "s3://lake/ods"
    assert [as_path("file:///lake/ods"), as_path("s3://lake")] == ["/lake/ods", "s3://lake"]


def test_a_file_system_that_is_not_known_is_refused_by_name():
    with pytest.raises(TerminalStepError, match="ftp:// is not supported"):
        storage_of("ftp://lake/ods", {})


def test_paths_in_logs_of_before_are_understood(folder: str):
    location = STORAGE.new_folder(folder, "7-step")
    assert STORAGE.exists(as_path(location))
    storage_of(as_path(location), {}).remove(as_path(location))
    assert not STORAGE.exists(location)


def test_a_new_folder_never_is_one_that_is_there(folder: str):
    made = [STORAGE.new_folder(folder, "7-step") for _ in range(3)]
    assert made == [f"{folder}/7-step", f"{folder}/7-step.2", f"{folder}/7-step.3"]


def test_only_files_of_writers_are_data(folder: str):
    for name in ["part-1.parquet", "part-0.parquet", "_SUCCESS", ".part-0.parquet.crc"]:
        STORAGE.put_if_absent(f"{folder}/{name}", b"")
    assert data_files(Folder(STORAGE, folder)) == [
        f"{folder}/part-0.parquet",
        f"{folder}/part-1.parquet",
    ]
    assert data_files(Folder(STORAGE, f"{folder}/none")) == []


def test_a_folder_weighs_what_its_files_do_and_is_as_young_as_the_newest(
    folder: str, tmp_path: Path
):
    STORAGE.put_if_absent(f"{folder}/a/b/one", b"123")
    STORAGE.put_if_absent(f"{folder}/a/two", b"45")
    newest = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=1)
    os.utime(as_path(f"{folder}/a/b/one"), (0, newest.timestamp()))
    assert STORAGE.weight(f"{folder}/a") == (5, newest)
    assert STORAGE.weight(f"{folder}/a/two").bytes == 2
    with pytest.raises(FileNotFoundError):
        STORAGE.weight(f"{folder}/c")


def test_footers_hold_the_row_count_of_a_file(folder: str):
    STORAGE.make_folder(folder)
    rows = pa.table({"n": [1, 2, 3]})
    parquet.write_table(rows, as_path(f"{folder}/a.parquet"))
    orc.write_table(rows, as_path(f"{folder}/a.orc"))
    assert STORAGE.rows(f"{folder}/a.parquet", "parquet") == 3
    assert STORAGE.rows(f"{folder}/a.orc", "orc") == 3


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_file_that_is_not_whole_has_no_rows(folder: str, form: str):
    STORAGE.put_if_absent(f"{folder}/cut", b"PAR1 and no more")
    with pytest.raises((OSError, ValueError)):
        STORAGE.rows(f"{folder}/cut", form)


def test_links_that_lead_out_of_a_folder_are_not_below_it(folder: str, tmp_path: Path):
    STORAGE.make_folder(f"{folder}/in")
    (tmp_path / "out").mkdir()
    Path(as_path(f"{folder}/link")).symlink_to(tmp_path / "out")
    assert STORAGE.is_below(f"{folder}/in", folder)
    assert not any(STORAGE.is_below(f"{folder}/{name}", folder) for name in (".", "link", "../out"))


def test_what_is_gone_already_can_be_removed(folder: str):
    STORAGE.put_if_absent(f"{folder}/a/one", b"1")
    for location in [f"{folder}/a/one", f"{folder}/a/one", f"{folder}/a", f"{folder}/a"]:
        STORAGE.remove(location)
    assert STORAGE.names(folder) == []


def test_a_file_is_put_where_none_is_and_never_replaced(folder: str):
    assert STORAGE.put_if_absent(f"{folder}/pointer", b"first")
    assert not STORAGE.put_if_absent(f"{folder}/pointer", b"second")
    assert (text(f"{folder}/pointer"), STORAGE.names(folder)) == ("first", ["pointer"])


def test_a_file_in_the_place_of_another_is_another_version(folder: str):
    STORAGE.put_if_absent(f"{folder}/a", b"1")
    before = STORAGE.versions(folder)
    Path(as_path(f"{folder}/b")).write_text("2")
    Path(as_path(f"{folder}/b")).replace(as_path(f"{folder}/a"))
    after = STORAGE.versions(folder)
    assert after.keys() == before.keys()
    assert after != before


DYING = """
import os, sys
from pathlib import Path
from logdriven_dagster.engine.storage.local import LocalStorage

def die(*_, **__):
    os.kill(os.getpid(), 9)

def die_afterwards(work):
    return lambda *given: (work(*given), die())

match sys.argv[1]:
    case "writing":
        os.fsync = die
    case "before it counts":
        Path.hardlink_to = die
    case "after it counts":
        Path.hardlink_to = die_afterwards(Path.hardlink_to)
LocalStorage().put_if_absent(sys.argv[2], b"whole")
"""


@pytest.mark.sampled
@pytest.mark.parametrize("point", ["writing", "before it counts", "after it counts"])
def test_a_killed_writer_leaves_a_whole_file_or_none(folder: str, point: str):
    dead = subprocess.run([sys.executable, "-c", DYING, point, f"{folder}/pointer"], check=False)
    assert dead.returncode == -9
    left = STORAGE.names(folder)
    counts = point == "after it counts"
    assert [name for name in left if not name.endswith(DRAFT)] == (["pointer"] if counts else [])
    assert STORAGE.put_if_absent(f"{folder}/pointer", b"whole") != counts
    assert text(f"{folder}/pointer") == "whole"


def race(folder: str, number: int, start: Any) -> list[int]:
    start.wait()
    content = str(number).encode() * 10_000
    return [n for n in range(ROUNDS) if STORAGE.put_if_absent(f"{folder}/{n}", content)]


def won(folder: str, number: int, start: Any, results: Any) -> None:
    results.put((number, race(folder, number, start)))


@pytest.mark.usefixtures("slow")
def test_of_writers_that_race_exactly_one_puts_each_file(folder: str):
    context = get_context("spawn")
    start, results = context.Barrier(RACERS), context.Queue()
    given = [(folder, number, start, results) for number in range(RACERS)]
    racers = [context.Process(target=won, args=args) for args in given]
    for racer in racers:
        racer.start()
    wins = dict(results.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join()
    assert sorted(n for made in wins.values() for n in made) == list(range(ROUNDS))
    for number, made in wins.items():
        assert all(text(f"{folder}/{n}") == str(number) * 10_000 for n in made)
    assert len(STORAGE.names(folder)) == ROUNDS


def test_a_mounted_file_system_without_links_takes_files_too(
    folder: str, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    assert STORAGE.put_if_absent(f"{folder}/pointer", b"first")
    assert not STORAGE.put_if_absent(f"{folder}/pointer", b"second")
    assert (text(f"{folder}/pointer"), STORAGE.names(folder)) == ("first", ["pointer"])


def test_a_listing_looks_at_no_file(folder: str, monkeypatch: pytest.MonkeyPatch):
    STORAGE.put_if_absent(f"{folder}/a", b"1")
    looks: list[Any] = []
    monkeypatch.setattr(os, "stat", lambda *given, **_: looks.append(given))
    listed = STORAGE.versions(folder)
    monkeypatch.undo()
    assert (list(listed), looks) == (["a"], [])
