"""The cursor of the sensor that shows windows in Dagster."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from logdriven_dagster.runlog.sql.clock import SET_BACK

_LOOK_BACK = timedelta(minutes=1)
"""Longer than a transaction that ends an attempt."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The cursor: the time up to which ended attempts were seen, and those of the last minute."""

    until: str | None = None
    recent: tuple[tuple[int, str], ...] = ()
    """Job id and end of the attempts seen in the minute before `until`."""
    broken: str | None = None
    """The time up to which failed runs of this Dagster were checked."""
    renamed: tuple[tuple[str, int, int], ...] = ()
    """Each renamed table: its last attempt under an earlier name, and the last one shown of them.
    """

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "Seen":
        """Return the cursor in a text; an unreadable one counts as empty."""
        try:
            values = json.loads(cursor or "{}")
            recent = tuple((int(n), str(t)) for n, t in values["recent"])
            for instant in filter(None, [values["until"], *(end for _, end in recent)]):
                parse_log_time(instant)
            renamed = tuple((str(t), int(n), int(m)) for t, n, m in values.get("renamed", ()))
            return cls(values["until"], recent, values.get("broken"), renamed)
        except (AttributeError, TypeError, ValueError, KeyError):
            return cls()

    def advance(self, now: datetime) -> "Seen":
        """Return the cursor at a timestamp; it restarts there if the log's clock was set back."""
        latest = parse_log_time(now.isoformat()) + SET_BACK
        if self.until is None or parse_log_time(self.until) <= latest:
            return self
        return Seen(now.isoformat(), broken=self.broken, renamed=self.renamed)

    @property
    def since(self) -> datetime | None:
        """The time from which the log is queried: naive and UTC, like its own timestamps."""
        if self.until is None:
            return None
        return (parse_log_time(self.until) - _LOOK_BACK).replace(tzinfo=None)

    @property
    def job_ids(self) -> list[int]:
        return [job_id for job_id, _ in self.recent]

    def then(
        self,
        rows: Sequence[dict[str, Any]],
        broken: str | None,
        renamed: Sequence[tuple[str, int, int]] = (),
    ) -> str:
        """Return the cursor after these rows."""
        others: dict[str, Any] = {"broken": broken} | ({"renamed": renamed} if renamed else {})
        together = [*self.recent, *((row["job_id"], row["job_end_time"]) for row in rows)]
        ends = [parse_log_time(end) for _, end in together]
        until = max([*ends, *([parse_log_time(self.until)] if self.until else [])], default=None)
        if until is None:
            return json.dumps({"until": None, "recent": [], **others})
        recent = [
            item for item, end in zip(together, ends, strict=True) if end >= until - _LOOK_BACK
        ]
        return json.dumps({"until": until.isoformat(), "recent": recent, **others})


def parse_log_time(text: str) -> datetime:
    """Return a timestamp of the log, which is in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
