"""Packages that are installed in a folder of their own, as pages of the documentation show them."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE

DOCS = Path(__file__).resolve().parents[2] / "docs"


def install(page: str, site: Path) -> None:
    """Put the package of a page where `pip install --target` would."""
    text = (DOCS / page).read_text()
    (toml,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    register(site, re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", toml).replace('"', ""))
    file = site / code.partition("\n")[0].removeprefix("# ")
    file.parent.mkdir()
    file.write_text(code)


def register(site: Path, entries: str) -> None:
    """Write what installing the package writes of its entry points."""
    info = site / "toys-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


def logdriven(root: Path, site: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a project, with the packages of a folder."""
    return subprocess.run(
        [sys.executable, "-c", "from logdriven_dagster.cli import main; main()", *words],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(site), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
