"""Folders of renamed tables follow in one step, or stay for a reason that has a fix."""

from pathlib import Path

import pytest

from logdriven_dagster.config.locations import resolve_location
from logdriven_dagster.engine.storage.local import LocalStorage
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.moves import find_move_obstacle, move_folder
from logdriven_dagster.errors import TerminalStepError


class Remote(LocalStorage):
    """Folders of this machine, as if they were those of an object store."""

    is_remote = True


def folder(path: Path, *files: str, storage: LocalStorage | None = None) -> Folder:
    for file in files:
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text("1")
    return Folder(storage or LocalStorage(), resolve_location(path))


def test_a_folder_follows_once(tmp_path: Path):
    old, new = folder(tmp_path / "ods/old", "data/1"), folder(tmp_path / "dwd/deep/new")
    assert find_move_obstacle(old, new) is None
    for _ in range(2):
        move_folder(old, new)
        assert (tmp_path / "dwd/deep/new/data/1").read_text() == "1"
        assert not (tmp_path / "ods/old").exists()


def test_what_cannot_follow_names_the_fix(tmp_path: Path):
    old, taken = folder(tmp_path / "old", "data/1"), folder(tmp_path / "taken", "data/2")
    assert "both hold files" in str(find_move_obstacle(old, taken))
    with pytest.raises(TerminalStepError, match="both hold files"):
        move_folder(old, taken)
    inside = folder(tmp_path / "old/v2")
    assert f"write `path: {tmp_path}/old` into the target" in str(find_move_obstacle(old, inside))
    remote = folder(tmp_path / "old", storage=Remote())
    assert "cannot rename folders; write `path: " in str(find_move_obstacle(remote, inside))
    assert find_move_obstacle(folder(tmp_path / "none"), taken) is None
