"""What the engine asks of a file system, kept by an object store behind S3's protocol."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import orc, parquet

from logdriven_dagster.config import load_project
from logdriven_dagster.config.derived.needs import WAREHOUSE
from logdriven_dagster.config.locations import normalize_location, resolve_location
from logdriven_dagster.config.models.project import STORAGE_PROPERTIES
from logdriven_dagster.engine import needs
from logdriven_dagster.engine.storage.locations import Folder, storage_of
from logdriven_dagster.engine.storage.object_store import ObjectStore
from logdriven_dagster.engine.storage.staging import data_files, find_staging_folders, staging_name
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.errors import TerminalStepError, UnmetNeedError
from scripts.lake import s3
from scripts.lake.faults import Fault
from scripts.lake.serving import Server

FOLDER = "s3://lake/a b [1] %20 ü"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with s3.start({"lake": tmp_path / "bucket"}) as started:
        yield started


@pytest.fixture
def storage(server: Server) -> Storage:
    return storage_of(FOLDER, s3.properties(server.url))


def test_what_was_put_is_read_listed_and_weighed(storage: Storage):
    before = datetime.now(timezone.utc) - timedelta(seconds=2)
    assert storage.put_if_absent(f"{FOLDER}/one/x", b"abc")
    assert storage.put_if_absent(f"{FOLDER}/two", b"de")
    assert storage.read(f"{FOLDER}/one/x") == b"abc"
    with storage.open(f"{FOLDER}/two") as file:
        assert file.read() == b"de"
    assert storage.names(FOLDER) == ["one", "two"]
    assert storage.weight(FOLDER).bytes == 5
    assert storage.weight(f"{FOLDER}/two").bytes == 2
    assert before < storage.weight(FOLDER).modified <= datetime.now(timezone.utc)
    assert storage.exists(f"{FOLDER}/two")
    assert storage.exists(f"{FOLDER}/one")


def test_where_nothing_is_nothing_is_found(storage: Storage):
    assert storage.names(f"{FOLDER}/none") == []
    assert not storage.exists(f"{FOLDER}/none")
    storage.remove(f"{FOLDER}/none")
    for ask in (storage.read, storage.weight, storage.open):
        with pytest.raises(FileNotFoundError):
            ask(f"{FOLDER}/none")


@pytest.mark.usefixtures("slow")
def test_a_file_that_is_there_is_never_changed(storage: Storage):
    assert storage.put_if_absent(f"{FOLDER}/x", b"first")
    assert not storage.put_if_absent(f"{FOLDER}/x", b"second")
    assert storage.read(f"{FOLDER}/x") == b"first"


@pytest.mark.usefixtures("slow")
def test_of_several_writers_one_puts(server: Server):
    with ThreadPoolExecutor(8) as racers:
        for n in range(10):
            stores = [storage_of(FOLDER, s3.properties(server.url)) for _ in range(8)]
            work = [
                racers.submit(each.put_if_absent, f"{FOLDER}/{n}", b"%d" % i)
                for i, each in enumerate(stores)
            ]
            assert sum(each.result() for each in work) == 1


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["lost", "late-500", "late-503", "503", "dropped"])
def test_a_put_whose_answer_got_lost_is_done_once_and_known_to_be_ours(
    storage: Storage, server: Server, kind: str
):
    assert storage.put_if_absent(f"{FOLDER}/before", b"")  # the store was tried
    server.faults.plan(Fault(kind, "PutObject"))
    assert storage.put_if_absent(f"{FOLDER}/x", b"mine")
    assert server.faults.met.total() == 1
    assert not storage.put_if_absent(f"{FOLDER}/x", b"of somebody else")


class Careless(MemoryFileSystem):
    """A store that overwrites what is there."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        super().pipe_file(path, value)


TABLE = """
table: ods.a
period: 1 day
default_start: 2022-01-01
steps:
  - {step: load, sql: SELECT 1 AS n, target: {type: %s}}
"""


def test_only_targets_without_a_catalog_ask_whether_a_store_keeps_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    careless = Careless()
    monkeypatch.setattr(needs, "storage_of", lambda *_: ObjectStore(lambda: careless))
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text("project: a\nwarehouse: s3://lake/a")
    (tmp_path / "tables/a.yaml").write_text(TABLE % "iceberg")
    needs.refuse_unmet(load_project(tmp_path), WAREHOUSE)
    for kind in ("parquet", "delta"):
        (tmp_path / "tables/a.yaml").write_text(TABLE % kind)
        with pytest.raises(UnmetNeedError, match="not support conditional writes"):
            needs.refuse_unmet(load_project(tmp_path), WAREHOUSE)


def test_a_store_that_overwrites_what_is_there_is_refused():
    careless = Careless()
    with pytest.raises(TerminalStepError, match=r"not support conditional writes .* type iceberg"):
        ObjectStore(lambda: careless).put_if_absent("memory://lake/pointer", b"1")
    assert not careless.find("memory://lake")


@pytest.mark.usefixtures("slow")
def test_it_is_tried_once_whether_a_store_keeps_conditions(storage: Storage, server: Server):
    server.faults.forget()
    for n in range(5):
        storage.put_if_absent(f"{FOLDER}/{n}", b"")
    assert server.faults.requests["PutObject"] == 5 + 2


@pytest.mark.parametrize("columns", [1, 2000])  # whose footer is longer than the end that is read
def test_rows_of_a_footer_are_reported_without_reading_the_file(
    storage: Storage, server: Server, tmp_path: Path, columns: int
):
    table = pa.table({f"c{n}": range(1234) for n in range(columns)})
    parquet.write_table(table, tmp_path / "bucket" / "x.parquet")
    server.faults.forget()
    assert storage.rows("s3://lake/x.parquet", "parquet") == 1234
    assert dict(server.faults.requests) == {"GetObject": 1 if columns == 1 else 2}


def test_rows_of_orc_are_reported(storage: Storage, tmp_path: Path):
    orc.write_table(pa.table({"c": range(7)}), tmp_path / "bucket" / "x.orc")
    assert storage.rows("s3://lake/x.orc", "orc") == 7


def test_a_file_that_is_not_whole_has_no_rows(storage: Storage):
    storage.put_if_absent(f"{FOLDER}/x.parquet", b"PAR1")
    with pytest.raises((OSError, ValueError)):
        storage.rows(f"{FOLDER}/x.parquet", "parquet")


@pytest.mark.usefixtures("slow")
def test_a_folder_is_removed_with_its_contents_and_nothing_else(storage: Storage):
    for name in ("t/1", "t/deep/2", "t2/3"):
        storage.put_if_absent(f"{FOLDER}/{name}", b"")
    storage.remove(f"{FOLDER}/t")
    assert storage.names(FOLDER) == ["t2"]


def test_a_new_folder_never_is_one_that_is_there(storage: Storage):
    made = {storage.new_folder(FOLDER, "7-step") for _ in range(100)}
    assert len(made) == 100
    assert all(each.startswith(f"{FOLDER}/7-step.") for each in made)


def test_a_version_is_another_one_once_the_file_is_another_one(storage: Storage):
    storage.put_if_absent(f"{FOLDER}/x", b"1")
    first = storage.versions(FOLDER)
    assert storage.versions(FOLDER) == first
    storage.remove(f"{FOLDER}/x")
    storage.put_if_absent(f"{FOLDER}/x", b"2")
    assert storage.versions(FOLDER).keys() == first.keys()
    assert storage.versions(FOLDER) != first


def test_markers_of_folders_are_no_files(storage: Storage, tmp_path: Path):
    """S3A and other tools put empty objects in the place of folders."""
    (tmp_path / "bucket" / "t").mkdir(parents=True)
    storage.put_if_absent("s3://lake/t/part-0.parquet", b"")
    assert data_files(Folder(storage, "s3://lake/t")) == ["s3://lake/t/part-0.parquet"]


def test_the_windows_of_a_stretch_are_identified_by_their_jobs(storage: Storage):
    for name in ("3-load.a1/x", "4-load__stretch.b2/_job=4/x", "4-load__stretch.b2/_job=5/x"):
        storage.put_if_absent(f"{FOLDER}/{name}", b"")
    found = find_staging_folders(Folder(storage, FOLDER))
    assert {staging_name(folder): job for folder, job in found.items()} == {
        "3-load.a1": 3,
        "4-load__stretch.b2/_job=4": 4,
        "4-load__stretch.b2/_job=5": 5,
    }


def test_a_bucket_has_one_name_for_all_schemes_of_its_store():
    spellings = ["s3://lake/ods/", "s3a://lake/ods", "s3n://lake//ods"]
    assert {normalize_location(each) for each in spellings} == {"s3://lake/ods"}
    assert resolve_location("s3a://lake/ods/") == "s3a://lake/ods"


def test_the_names_of_storage_are_those_that_pyiceberg_knows():
    import pyiceberg.io

    texts = {value for value in vars(pyiceberg.io).values() if isinstance(value, str)}
    prefixes = ("s3.", "gcs.", "adls.", "client.")
    assert {text for text in texts if text.startswith(prefixes)} == STORAGE_PROPERTIES
