"""One `dagster dev` and one browser for all tests of a module.

A browser leaves an event loop running in the thread until it is closed: tests of other modules
would stumble over it.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance

from tests.orchestration.world import DAILY, EVENTS, World

playwright = pytest.importorskip("playwright.sync_api")

from tests.ui.server import ON_SPARK, DagsterDev, start  # noqa: E402 — imports playwright

SETTLED = 1500
"""Milliseconds in which a page draws what it has fetched."""
SLOW: dict[str, Any] = {
    "table": "ods.slow",
    "tags": ON_SPARK,
    "steps": [{"step": "load", "python": "slow.py:load", "target": {"type": "parquet"}}],
}
SLOW_STEP = """
def load(spark):
    return spark.range(4).selectExpr("java_method('java.lang.Thread', 'sleep', 120000L)")
"""
BROKEN: dict[str, Any] = {**EVENTS, "table": "ods.broken"}
MONTH: dict[str, Any] = {**EVENTS, "table": "ods.month"}
HALTING: dict[str, Any] = {**EVENTS, "table": "ods.halting"}
FILES: dict[str, Any] = {**EVENTS, "table": "ods.files", "tags": ON_SPARK}


@pytest.fixture(scope="module")
def ui_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("ui") / "project"
    root.mkdir()
    world = World(root, DagsterInstance.ephemeral())
    world.write(EVENTS, DAILY, SLOW, BROKEN, MONTH, HALTING, FILES).events()
    (root / "tables" / "slow.py").write_text(SLOW_STEP)
    return world


@pytest.fixture(scope="module")
def dev(ui_world: World, spark_processes: None) -> Iterator[DagsterDev]:
    server = start(ui_world.root, ui_world.root.parent / "home")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = shutil.which("chromium")
    if path is None and not os.environ.get("CI"):
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as tools:
        chromium = tools.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where pictures go: the test's folder, or LOGDRIVEN_SCREENSHOTS."""
    folder = Path(os.environ.get("LOGDRIVEN_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def page(browser: Any, request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    """A page whose last sight is kept."""
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    yield opened
    opened.screenshot(path=folder / f"{request.node.name}.png")
    opened.close()


@pytest.fixture
def picture(page: Any, folder: Path) -> Callable[[str], None]:
    """Take the page as it is, light and dark; `make picture` copies the light into docs/images."""

    def take(name: str) -> None:
        for scheme, file in (("dark", f"{name}-dark.png"), ("light", f"{name}.png")):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(SETTLED)
            page.screenshot(path=folder / file, animations="disabled")

    return take
