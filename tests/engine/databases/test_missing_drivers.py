"""Without the driver of a database, each message names the command that installs it."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.config.connections import Connection
from logdriven_dagster.config.derived.needs import Need
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import database
from logdriven_dagster.engine.needs import refuse_unmet
from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.plugins.importers.database.reflection import open_database
from logdriven_dagster.runlog import RunLog

DRIVERS = {"psycopg": ("postgresql", "postgres"), "pymysql": ("mysql", "mysql")}


def use(connection: Connection) -> None:
    with database(connection):
        pass


USES: dict[str, Callable[[Project], object]] = {
    "a window": lambda project: refuse_unmet(project, Need("connection", "db")),
    "a target": lambda project: use(project.connection("db")),
    "scaffold": lambda project: open_database(project.connection("db")),
    "the run log": lambda project: RunLog.open(project.connection("db").url),
}


@pytest.mark.parametrize("used", USES)
@pytest.mark.parametrize("module", DRIVERS)
def test_a_missing_driver_is_reported_with_its_command(
    module: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme, extra = DRIVERS[module]
    (tmp_path / "logdriven.yaml").write_text(
        f"project: shop\nconnections: {{db: {{url: '{scheme}://me@127.0.0.1:1/none'}}}}\n"
    )
    project = load_project(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    command = f"needs the package {module}; run `pip install 'logdriven_dagster[{extra}]'`"
    with pytest.raises(LogdrivenError, match=re.escape(command)):
        USES[used](project)
