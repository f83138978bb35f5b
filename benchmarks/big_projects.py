"""Projects of many hourly tables, for measuring scale: of each kind some."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import yaml

_EVERY_KIND = 20
_SLICED, _LOOKBACK, _CONSUMER, _DELAYED = 1, 2, 5, 9
_SPECIAL = {_SLICED, _LOOKBACK, _CONSUMER, _DELAYED}


def _last_hour() -> datetime:
    return datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class Shape:
    """How many tables, and how many windows each of them has behind it.

    The last window ended with the last hour, so that a sensor's clock finds little to do.
    """

    tables: int
    windows: int
    now: datetime = field(default_factory=_last_hour)

    @property
    def start(self) -> datetime:
        """Where the history begins."""
        return self.now - timedelta(hours=self.windows)

    def name(self, k: int) -> str:
        return f"ods.t{k:04}"

    def kind(self, k: int) -> str:
        kinds = {_SLICED: "auto_inc_id", _CONSUMER: "upstream"}
        return kinds.get(k % _EVERY_KIND, "time_window")


def make_project(folder: Path, shape: Shape, url: str) -> None:
    """A project of these tables; nine of ten wait for the one before."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    settings = {"project": "scale", "timezone": "UTC", "run_log": url}
    settings["connections"] = {"shop": {"url": "sqlite:////nowhere.db"}}
    (folder / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    for k in range(shape.tables):
        text = yaml.safe_dump(_table(shape, k))
        (folder / "tables" / f"{k:04}.yaml").write_text(text)


def _table(shape: Shape, k: int) -> dict[str, Any]:
    step: dict[str, Any] = {"step": "load", "sql": "SELECT 1 AS one", "target": {"type": "iceberg"}}
    values: dict[str, Any] = {"table": shape.name(k), "period": "1 hour", "steps": [step]}
    place = k % _EVERY_KIND
    before = shape.name(k - 1)
    if place == _SLICED:
        del step["sql"]
        step["source"] = {"type": "jdbc", "connection": "shop", "table": "o", "key_column": "id"}
        return {**values, "incremental_type": "auto_inc_id"}
    if place == _CONSUMER:
        return {**values, "incremental_type": "upstream", "depends_on": [before]}
    values["default_start"] = f"{shape.start:%Y-%m-%d %H:%M}"
    if place == _LOOKBACK:
        return {**values, "lookback": 2}
    if place == _DELAYED:
        return {**values, "depends_on": [{"table": before, "delay": "30 min"}]}
    after_special = (place - 1) in _SPECIAL
    return {**values, "depends_on": [before] if k % 10 and not after_special else []}
