"""What looks at the log, or finds nothing to do, loads nothing that is slow to load."""

import subprocess
import sys

import pytest

HEAVY = (
    *("pyspark", "py4j", "pyiceberg", "pandas", "pyarrow", "numpy", "dagster", "sqlglot"),
    *("jinja2", "alembic", "requests", "apprise", "confluent_kafka", "rich"),
)
BARE = [sys.executable, "-c", "from logdriven_dagster.cli import main; main()"]
PROGRAM = """
import sys
from logdriven_dagster.cli import main
try:
    main()
except SystemExit:
    print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize(
    "command",
    [
        ("plan", "--json", "--now", "2022-01-01"),
        ("status", "--json", "--now", "2022-01-01"),
        ("run", "--json", "--now", "2022-01-01"),
        ("log", "--json"),
        ("show", "ods.orders", "--counts", "--json", "--now", "2022-01-01"),
    ],
    ids=lambda command: command[0],
)
def test_nothing_heavy_is_loaded(shop, command):
    subprocess.run([*BARE, "status"], cwd=shop, check=True, capture_output=True)  # makes the log
    program = [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), *command]
    ended = subprocess.run(program, cwd=shop, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "[]\n")
