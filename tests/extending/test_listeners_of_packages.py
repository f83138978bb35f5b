"""A listener that an installed package registers: the one of docs/listeners.md."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extending.packages import install

RUN = """
import sys
from logdriven_dagster.testing import NullEngine, Sandbox
sandbox = Sandbox(sys.argv[1], engine=NullEngine())
sandbox.write("tables/t.yaml", {
    "table": "ods.t", "period": "1 day", "default_start": "2022-01-01",
    "steps": [{"step": "load", "sql": "SELECT 1 AS n", "target": {"type": "parquet"}}],
})
sandbox.engine.fail("ods.t", "2022-01-02")
sandbox.run(now="2022-01-03")
"""


@pytest.mark.usefixtures("slow")
def test_it_receives_every_window_and_every_part_of_its_work(tmp_path: Path):
    install("listeners.md", tmp_path / "site")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/logdriven.yaml").write_text("project: shop\n")
    variables = {"PYTHONPATH": str(tmp_path / "site"), "AUDIT_TRAIL": str(tmp_path / "trail")}
    subprocess.run(
        [sys.executable, "-c", RUN, tmp_path / "shop"], env=os.environ | variables, check=True
    )
    lines = (tmp_path / "trail").read_text().splitlines()
    words = [line.partition(" ")[0] for line in lines]
    assert [word for word in words if word.startswith(("claimed", "Window"))] == [
        "claimed",
        "WindowSucceeded",
        "claimed",
        "WindowFailed",
    ]
    assert any(re.match(r"step load: \d\.\d s \{.*'rows_", line) for line in lines), lines
    assert any(line.startswith("publish load: ") for line in lines)
