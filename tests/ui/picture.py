"""Pictures of the graph and of the report: `make picture` opens the finished demo and takes them.

Those of dark pages go into .screenshots, where people look at them.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from playwright.sync_api import FloatRect, Page, ViewportSize, sync_playwright

from logdriven_dagster.config import load_project
from tests.ui.server import DagsterDev, wait_for

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / ".demo"
IMAGES, DARK = ROOT / "docs" / "images", ROOT / ".screenshots"
SCHEMES = (("dark", DARK, "-dark"), ("light", IMAGES, ""))
ARRANGING = 4000
"""Milliseconds in which the graph arranges itself."""
MARGIN = 16
SETTLED = 1500
"""Milliseconds in which a page takes other colors."""
SCREEN = ViewportSize(width=1900, height=1250)
SHEET = ViewportSize(width=1180, height=1000)
ADDRESS = re.compile(r" is at (http://\S+)")
_SHOWN = """query Shown($path: [String!]!) {
  assetNodes(assetKeys: [{path: $path}]) { partitionStats { numMaterialized numPartitions } }
}"""


def main() -> None:
    """Show the demo's tables as `make ui` shows them, once the mirror has told of all windows."""
    DARK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        dev = start(Path(home))
        try:
            for table in load_project(DEMO).tables:
                wait_for(partial(is_finished, dev, table))
            with sync_playwright() as tools:
                chromium = tools.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                take(chromium.new_page(viewport=SCREEN, device_scale_factor=1.5), dev)
                take_report(chromium.new_page(viewport=SHEET, device_scale_factor=1.5))
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


def is_finished(dev: DagsterDev, table: str) -> bool:
    """Return True if Dagster shows all windows of a table as done."""
    (node,) = dev.ask(_SHOWN, path=table.split("."))["assetNodes"]
    stats = node["partitionStats"]
    return bool(stats["numMaterialized"] == stats["numPartitions"])


def take(page: Page, dev: DagsterDev) -> None:
    """Take the graph of all tables, groups opened, without what is around it."""
    show(page, dev)
    page.get_by_text("Hide navigation").click()
    page.get_by_label("panel_show_left").click()
    while (closed := page.get_by_label("unfold_more")).count():
        closed.first.click()
        page.wait_for_timeout(ARRANGING)
        show(page, dev)  # what has moved out of sight comes back
    for scheme, folder, suffix in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(SETTLED)
        page.screenshot(path=folder / f"ui{suffix}.png", clip=around(page))


def take_report(page: Page) -> None:
    """Take the plots of the report on everything that ran today and yesterday."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        yesterday = f"{datetime.now(load_project(DEMO).zone) - timedelta(days=1):%Y-%m-%d}"
        tomorrow = f"{datetime.now(load_project(DEMO).zone) + timedelta(days=1):%Y-%m-%d}"
        words = ["report", "--project", str(DEMO), "--from", yesterday, "--to", tomorrow]
        command = [sys.executable, "-m", "logdriven_dagster.cli", *words, "--output", str(file)]
        subprocess.run(command, check=True)
        page.goto(file.as_uri())
        first, last = (page.locator("h2", has_text=text) for text in ("Windows", "Tables"))
        top, bottom = first.bounding_box(), last.bounding_box()
        assert top is not None
        assert bottom is not None
        height = bottom["y"] - top["y"]
        clip = FloatRect(x=0, y=top["y"] - MARGIN, width=SHEET["width"], height=height)
        for scheme, where, suffix in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=where / f"report{suffix}.png", clip=clip, full_page=True)


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
