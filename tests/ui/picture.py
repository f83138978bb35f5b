"""The picture of the README: `make picture` opens the finished demo and takes it."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.ui.server import DagsterDev, wait_for

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "ui.png"
ADDRESS = re.compile(r" is at (http://\S+)")
TABLES = ("ods.flights", "ods.weather", "dwd.flights", "dws.daily_delay", "dws.weekly_delay")


def main() -> None:
    """Show the demo's tables as `make ui` shows them, once the mirror has told of all windows."""
    with tempfile.TemporaryDirectory() as home:
        dev = start(Path(home))
        try:
            for table in TABLES:
                wait_for(lambda name=table: dev.states(name))
            with sync_playwright() as tools:
                chromium = tools.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                take(chromium.new_page(viewport={"width": 1900, "height": 1250}), dev)
        finally:
            dev.stop()


def start(home: Path) -> DagsterDev:
    """`logdriven ui` on the demo's folder, with a storage that only this picture has."""
    log = home / "ui.log"
    command = [sys.executable, "-m", "logdriven_dagster.cli", "ui", "--project", ROOT / ".demo"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    found = wait_for(lambda: process.poll() is not None or ADDRESS.search(log.read_text()))
    assert isinstance(found, re.Match), log.read_text()
    return DagsterDev(found[1], process)


def take(page: Page, dev: DagsterDev) -> None:
    """The graph of all tables, without what is around it."""
    page.goto(f"{dev.url}/asset-groups")
    page.get_by_text("weekly_delay").first.wait_for()
    page.wait_for_timeout(8000)  # the graph arranges itself
    page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
