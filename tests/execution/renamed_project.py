"""A project whose first table is renamed, with tables that read it in each way."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import String, select

from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.runlog.schema.attempts import metadata
from tests.builders import at

NOW = at("2022-01-04")
OLD, NEW = "ods.old", "ods.new"


def daily(name: str, *upstreams: str, target: Any = None, **fields: Any) -> dict[str, Any]:
    """A table of days."""
    step = {"step": "load", "sql": "SELECT 1 AS one", "target": target or {"type": "parquet"}}
    waits = {"depends_on": list(upstreams)} if upstreams else {}
    common = {"table": name, "period": "1 day", "default_start": "2022-01-01", "steps": [step]}
    return {**common, **waits, **fields}


@dataclass(frozen=True)
class Renamed:
    """The project in a folder, on a run log."""

    root: Path
    log: str = ""
    name: str = "p"

    def write(self, *tables: dict[str, Any]) -> "Renamed":
        """Write the project of these tables alone."""
        folder = self.root / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"project": self.name, "timezone": "UTC"}
        settings |= {"run_log": self.log} if self.log else {}
        (self.root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
        for file in folder.glob("*.yaml"):
            file.unlink()
        for table in tables:
            (folder / f"{table['table']}.yaml").write_text(yaml.safe_dump(table))
        return self

    def write_all(self, name: str, **fields: Any) -> "Renamed":
        """Write a table of this name, one that reads its windows, and one that takes deliveries."""
        deliveries = daily("dwd.c", name, incremental_type="upstream")
        del deliveries["default_start"]
        return self.write(daily(name, **fields), daily("dwd.d", name), deliveries)

    @property
    def runner(self) -> Runner:
        registered = register(self.root)
        return open_runner(registered.project, run_log=registered.run_log)

    def run(self, now: Any = NOW) -> list[str]:
        """Catch up, and return which windows succeeded."""
        events = list(self.runner.catch_up(now))
        ended = [event.attempt for event in events if type(event).__name__ == "WindowSucceeded"]
        return [f"{attempt.table} {attempt.window}" for attempt in ended]

    def texts(self, name: str) -> set[str]:
        """The columns of the log in which a table has this name, alone or as that of a window."""
        run_log = open_run_log(self.runner.project)
        found = set()
        with run_log.engine.connect() as conn:
            for rows in metadata.sorted_tables:
                columns = [each for each in rows.columns if isinstance(each.type, String)]
                for row in conn.execute(select(*columns)) if columns else ():
                    for column, value in zip(columns, row, strict=True):
                        text = str(value)
                        if text == name or text.startswith((f"{name}-2", f"{name}#")):
                            found.add(f"{rows.name}.{column.name}")
        return found
