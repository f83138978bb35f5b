"""The picture of the README: `make picture` opens the finished demo and takes it."""

import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from playwright.sync_api import FloatRect, Page, ViewportSize, sync_playwright

from logdriven_dagster.config import load_project
from logdriven_dagster.examples import demo
from tests.ui.server import DagsterDev, wait_for

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / ".demo"
PICTURE = ROOT / "docs" / "images" / "ui.png"
ARRANGING = 4000
"""Milliseconds in which the graph arranges itself."""
MARGIN = 16
SCREEN = ViewportSize(width=1900, height=1250)
ADDRESS = re.compile(r" is at (http://\S+)")
_SHOWN = """query Shown($path: [String!]!) {
  assetNodes(assetKeys: [{path: $path}]) { partitionStats { numMaterialized } }
}"""


def main() -> None:
    """Show the demo's tables as `make ui` shows them, once the mirror has told of all windows."""
    with tempfile.TemporaryDirectory() as home:
        dev = start(Path(home))
        try:
            for table, (windows, _, _) in demo.count_finished(load_project(DEMO)).items():
                wait_for(partial(shows, dev, table, windows))
            with sync_playwright() as tools:
                chromium = tools.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                take(chromium.new_page(viewport=SCREEN, device_scale_factor=1.5), dev)
        finally:
            dev.stop()


def start(home: Path) -> DagsterDev:
    """`logdriven ui` on the demo's folder, which prints its address into a log in `home`."""
    log = home / "ui.log"
    command = [sys.executable, "-m", "logdriven_dagster.cli", "ui", "--project", str(DEMO)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    found = wait_for(lambda: process.poll() is not None or ADDRESS.search(log.read_text()))
    assert isinstance(found, re.Match), log.read_text()
    return DagsterDev(found[1], process)


def shows(dev: DagsterDev, table: str, windows: int) -> bool:
    """Whether Dagster shows so many windows of a table as done."""
    (node,) = dev.ask(_SHOWN, path=table.split("."))["assetNodes"]
    return bool(node["partitionStats"]["numMaterialized"] == windows)


def take(page: Page, dev: DagsterDev) -> None:
    """Take the graph of all tables, groups opened, without what is around it."""
    show(page, dev)
    page.get_by_text("Hide navigation").click()
    page.get_by_label("panel_show_left").click()
    while (closed := page.get_by_label("unfold_more")).count():
        closed.first.click()
        page.wait_for_timeout(ARRANGING)
        show(page, dev)  # what has moved out of sight comes back
    page.screenshot(path=PICTURE, clip=around(page))


def show(page: Page, dev: DagsterDev) -> None:
    """Open the graph and let it arrange itself."""
    page.goto(f"{dev.url}/asset-groups")
    page.get_by_text("dws").first.wait_for()
    page.wait_for_timeout(ARRANGING)


def around(page: Page) -> FloatRect:
    """The rectangle that all groups fill, with a margin."""
    boxes = [group.bounding_box() for group in page.locator("foreignObject").all()]
    seen = [box for box in boxes if box]
    left, top = (min(box[side] for box in seen) - MARGIN for side in ("x", "y"))
    right = max(box["x"] + box["width"] for box in seen) + MARGIN
    bottom = max(box["y"] + box["height"] for box in seen) + MARGIN
    return FloatRect(x=left, y=top, width=right - left, height=bottom - top)


if __name__ == "__main__":
    main()
