"""Pointer files: which folder holds a window's rows, and who may say so."""

from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from logdriven_dagster.config.locations import resolve_location
from logdriven_dagster.engine.storage.locations import folder_at, storage_of
from logdriven_dagster.engine.targets.files.pointers import _KNOWN, Pointer, Pointers
from logdriven_dagster.engine.targets.files.summaries import MANY
from logdriven_dagster.errors import TransientStepError
from scripts.lake import s3

NAME = "20220101000000"


@pytest.fixture
def pointers(tmp_path: Path) -> Pointers:
    return Pointers(folder_at(resolve_location(tmp_path), {}), ZoneInfo("UTC"))


def pointer(folder: str, token: int) -> Pointer:
    return Pointer(NAME, "20220102000000", folder, ("a",), 1, "s", 1, "{}", fencing_token=token)


def files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "_windows").iterdir())


def test_the_greatest_token_counts_not_the_last_writer(pointers: Pointers):
    pointers.put(NAME, pointer("new", 7), None)
    pointers.put(NAME, pointer("zombie", 6), None)
    assert pointers.current()[NAME].folder == "new"


def test_a_publication_counts_over_the_fence_of_its_own_attempt(pointers: Pointers):
    fence = pointers.put(NAME, pointer("old", 7), None)
    put = pointers.put(NAME, pointer("new", 7), fence)
    assert pointers.current() == {NAME: put}
    assert put.folder == "new"


def test_two_that_follow_the_same_pointer_are_distinguished(pointers: Pointers):
    fence = pointers.put(NAME, pointer("old", 7), None)
    pointers.put(NAME, pointer("one", 7), fence)
    with pytest.raises(TransientStepError, match="another writer has just created"):
        pointers.put(NAME, pointer("other", 7), fence)
    assert pointers.current()[NAME].folder == "one"


def test_no_pointer_is_ever_changed(pointers: Pointers, tmp_path: Path):
    fence = pointers.put(NAME, pointer("old", 7), None)
    before = (tmp_path / "_windows" / f"{NAME}.7.1.json").read_bytes()
    pointers.put(NAME, pointer("new", 7), fence)
    assert (tmp_path / "_windows" / f"{NAME}.7.1.json").read_bytes() == before
    assert files(tmp_path) == [f"{NAME}.7.1.json", f"{NAME}.7.2.json"]


def test_a_pointer_that_takes_the_place_of_a_cached_one_is_read_again(
    pointers: Pointers, tmp_path: Path
):
    put = pointers.put(NAME, pointer("mine", 7), None)
    assert pointers.current() == {NAME: put}
    file = tmp_path / "_windows" / f"{NAME}.7.1.json"
    edited = tmp_path / "edited"
    edited.write_text(file.read_text().replace("mine", "yours"))
    edited.replace(file)
    assert pointers.current() == {NAME: replace(put, folder="yours")}


def test_pointers_of_before_have_no_edition(pointers: Pointers, tmp_path: Path):
    put = pointers.put(NAME, pointer("old", 7), None)
    folder = tmp_path / "_windows"
    text = (folder / f"{NAME}.7.1.json").read_text().replace(',\n "edition": 1', "")
    assert "edition" not in text
    (folder / f"{NAME}.7.1.json").unlink()
    (folder / f"{NAME}.7.json").write_text(text)
    assert pointers.current() == {NAME: put}
    assert pointers.put(NAME, pointer("new", 7), put).edition == 2
    assert pointers.current()[NAME].folder == "new"


def test_leftovers_are_drafts_and_what_the_last_two_hide(pointers: Pointers, tmp_path: Path):
    old = None
    for token in (5, 6, 7):
        old = pointers.put(NAME, pointer(f"of {token}", token), old)
    location = resolve_location(tmp_path / "_windows")
    storage_of(location, {}).put_if_absent(f"{location}/{NAME}.8.1.json.dead.draft", b"{")
    left = [f"{location}/{NAME}.5.1.json", f"{location}/{NAME}.8.1.json.dead.draft"]
    assert pointers.leftovers() == left
    assert pointers.folders() == {"of 5", "of 6", "of 7"}


@pytest.mark.usefixtures("long")
def test_the_requests_of_a_reader_do_not_grow_with_the_windows_that_are_published(tmp_path: Path):
    """On an object store: a reader of another process takes them from a summary."""
    with s3.start({"lake": tmp_path}) as server:
        target = folder_at("s3://lake/t", s3.properties(server.url))
        pointers = Pointers(target, ZoneInfo("UTC"))
        asked = []
        for n in range(1, 101):
            pointers.put(f"2022{n:010}", pointer(f"of {n}", 5), None)
            if n % 10:
                continue
            server.faults.forget()
            _KNOWN.clear()  # as another process would begin
            assert {p.folder for p in pointers.current().values()} == {
                f"of {i}" for i in range(1, n + 1)
            }
            asked.append(server.faults.requests.total())
    # Between two summaries those that came since are read one by one.
    assert max(asked[5:]) <= max(asked[:5]) <= 2 * MANY
    assert len(list((tmp_path / "t" / "_windows").glob("summary.*"))) == 1


@pytest.mark.usefixtures("slow")
def test_a_summary_is_not_believed_about_a_file_that_is_another_one(tmp_path: Path):
    with s3.start({"lake": tmp_path}) as server:
        target = folder_at("s3://lake/t", s3.properties(server.url))
        pointers = Pointers(target, ZoneInfo("UTC"))
        for n in range(MANY):
            pointers.put(f"2022{n:010}", pointer(f"of {n}", 5), None)
        assert len(pointers.current()) == MANY
        for file in (tmp_path / "t" / "_windows").glob("2022*"):
            file.unlink()  # somebody empties the target, and a new run log counts anew
        for n in range(MANY):
            pointers.put(f"2022{n:010}", pointer(f"now of {n}", 5), None)
        _KNOWN.clear()
        assert {p.folder for p in pointers.current().values()} == {
            f"now of {n}" for n in range(MANY)
        }
