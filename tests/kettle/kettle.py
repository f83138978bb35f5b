"""The guide's own tables, views and queries on MariaDB, with a clock that stands still."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from tests.kettle.states import JOB, NOW, State

GUIDE = Path(__file__).with_name("guide.md")
_HEADING = re.compile(r"^(#+) (.+)$")


def statements() -> dict[str, str]:
    """Heading, within its parents → the SQL below it, as it stands in the guide."""
    found: dict[str, str] = {}
    path: list[str] = []
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.match(line):
            path = [*path[: len(heading[1]) - 1], heading[2]]
        elif line.startswith("    ") and line.strip() != ":::sql":
            name = "/".join(path[1:])
            found[name] = found.get(name, "") + line.removeprefix("    ") + "\n"
    return found


SQL = statements()
SCHEMA = (
    "作业日志表",
    "数据表日志表",
    "作业配置表",
    "标准工作流/转换配置表",
    "标准工作流/依赖关系表",
)
"""Logs of jobs and tables, jobs, and of the standard workflow: transformations, dependencies."""
STANDARD = "标准工作流/流程设计/kjb_standard_workflow"


class Kettle:
    """One connection to a database of the guide's; nothing of it is committed."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        conn.execute(text("SET time_zone = '+00:00'"))
        self.set_clock(NOW)

    @staticmethod
    def create(conn: Connection) -> None:
        """The tables and views."""
        for name in SCHEMA:
            for statement in SQL[name].split(";"):
                if statement.strip():
                    # A colon would begin a parameter.
                    conn.exec_driver_sql(statement.replace("%", "%%"))

    def set_clock(self, instant: datetime) -> None:
        """What NOW() and CURDATE() say from here on."""
        self._conn.execute(text(f"SET timestamp = {instant.timestamp()}"))

    def job(self, name: str = JOB, kind: str = "STANDARD", enabled: str = "Y") -> None:
        self._insert("t_etl_kjb_cfg", kjb_name=name, kjb_type=kind, is_enabled=enabled)

    def write(self, state: State) -> None:
        """The configuration and the logs of a state."""
        for name, table in state.items():
            if table.in_job:
                self._insert(
                    "t_etl_std_ktr_cfg",
                    kjb_name=JOB,
                    ktr_name=f"ktr_{name}",
                    ktr_path="/etl",
                    tbl_name=name,
                    is_enabled="Y" if table.enabled else "N",
                )
            for upstream, is_etl in table.upstreams.items():
                flag = "Y" if is_etl else "N"
                self._insert(
                    "t_etl_std_dep_cfg", tbl_to=name, tbl_from=upstream, tbl_from_is_etl=flag
                )
            for run in (*table.runs, *table.twins):
                ended = {} if run.end is None else {"end_dttm": run.end.replace(tzinfo=None)}
                self._insert(
                    "t_etl_tbl_log",
                    kjb_name=JOB,
                    ktr_name=f"ktr_{name}",
                    tbl_name=name,
                    begin_dttm=run.begin.replace(tzinfo=None),
                    status=run.status,
                    **ended,
                )

    def is_valid(self, name: str) -> bool:
        """Whether the standard workflow goes on with this job."""
        return bool(self._ask(f"{STANDARD}/kjb_is_valid", KJB_NAME=name))

    def selected(self) -> list[str]:
        """The tables of `get_ktr_list`."""
        return [row.tbl_name for row in self._ask(f"{STANDARD}/get_ktr_list", KJB_NAME=JOB)]

    def latest(self, table: str) -> list[str]:
        """The statuses that the view of latest runs shows of a table."""
        query = text("SELECT status FROM v_etl_tbl_log WHERE tbl_name = :table")
        return list(self._conn.execute(query, {"table": table}).scalars())

    def _ask(self, name: str, **variables: str) -> list[Any]:
        """Run a query of the guide with Kettle's variables put in."""
        query = SQL[name]
        for variable, value in variables.items():
            query = query.replace(f"${{{variable}}}", value)
        return list(self._conn.exec_driver_sql(query.replace("%", "%%")))

    def _insert(self, table: str, **values: Any) -> None:
        columns, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
        self._conn.execute(text(f"INSERT INTO {table} ({columns}) VALUES ({marks})"), values)
