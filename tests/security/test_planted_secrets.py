"""Seven planted secrets are looked for everywhere, by their own user and by another one."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from tests.security.scene import HOSTILE, NOBODY, PLANTED, WORDS, Scene
from tests.servers import new_database

NOT_ROOT = "to look as another user needs root and setpriv"


@pytest.fixture(scope="module")
def seen(server_urls: dict[str, str], spark_processes: None) -> Iterator[dict[str, Any]]:
    """What was seen while the project ran, and the scene with all that it left behind."""
    root = Path(tempfile.mkdtemp(prefix="vault-"))  # another user may enter it, unlike pytest's
    try:
        with new_database(server_urls["LOGDRIVEN_TEST_POSTGRES"]) as database:
            url = database.set(password="PASSWORD").render_as_string(hide_password=False)
            scene = Scene(root, url.replace("PASSWORD", "${env:PLANTED_LOG}"))
            found: dict[str, Any] = {"scene": scene}
            with scene.running() as process:
                found["user"] = scene.looked_at(process)
                if os.geteuid() == 0 and shutil.which("setpriv"):
                    found["nobody"] = scene.looked_at(process, user=NOBODY)
            found["after"] = scene.looked_at()
            found["rows"] = rows(database)
            yield found
    finally:
        shutil.rmtree(root, ignore_errors=True)


def rows(database: Any) -> dict[str, str]:
    """Every table of a database as text."""
    engine = create_engine(database)
    with engine.connect() as conn:
        names = inspect(conn).get_table_names()
        found = {name: str(conn.execute(text(f'SELECT * FROM "{name}"')).all()) for name in names}
    engine.dispose()
    return found


@pytest.fixture
def scene(seen: dict[str, Any]) -> Scene:
    found: Scene = seen["scene"]
    return found


def others(seen: dict[str, Any]) -> Any:
    if "nobody" not in seen:
        pytest.skip(NOT_ROOT)
    return seen["nobody"]


@pytest.mark.usefixtures("long")
def test_its_user_finds_no_secret_in_command_lines_files_and_ports(seen):
    assert seen["user"]["found"] == []
    assert seen["after"]["found"] == []
    assert seen["user"]["seen"]["/proc"] > 3
    assert seen["after"]["seen"]["/"] > 50
    assert list(seen["scene"].root.glob("events/**/*.db"))


def test_another_user_finds_none_and_reads_no_environment(seen):
    found = others(seen)
    assert (found["found"], found["environ"]) == ([], [])
    assert found["seen"]["port"] > 2


def test_spark_gives_no_block_to_a_stranger(seen):
    answers = list(seen["user"]["answers"].values())
    assert "given" not in answers
    # The driver and its block manager: both ask for a password.
    assert sum("asl" in answer for answer in answers) == 2


def test_the_run_log_holds_no_secret(seen):
    assert "job_log" in seen["rows"]
    assert [name for name, text in seen["rows"].items() if any(w in text for w in WORDS)] == []


@pytest.mark.parametrize("table", ["url", "bus", "option", "variable", "bound", "path", "hostile"])
def test_a_failure_is_reported_without_its_secret(seen, scene, table):
    assert f"b.{table}" in scene.console
    assert not any(word in scene.console for word in WORDS)


def test_hostile_data_reach_neither_terminal_nor_page(scene):
    page = (scene.root / "report.html").read_text()
    assert "b.hostile" in page
    assert "<script>alert" not in page
    assert "\x1b]0;owned" not in scene.console
    assert "\x1b[2J" not in scene.console
    assert HOSTILE not in scene.console


def test_new_files_are_writable_only_by_their_owner_under_any_umask(scene):
    made = [path for path in scene.root.rglob("*") if path != scene.root / "tmp"]
    made = [
        p for p in made if not p.is_symlink() and p.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ]
    own = {"ready", "console.txt", "go"}
    assert [str(path) for path in made if path.name not in own] == []


def test_seven_kinds_are_planted():
    assert len(PLANTED) == 7
