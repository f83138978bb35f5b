"""The first window of a table that others filled: what becomes of their rows.

It is the first contact as long as the table has rows and none of them has a `_window_start`. That
can be seen in the table itself, so windows that come side by side, again after a crash, or later
beside rows that were kept, see the right thing. Where a window replaces rows by their key, by a
column of theirs, or all of them, nobody has to decide.
"""

from logdriven_dagster.config.models.steps import IcebergTarget, JdbcTarget
from logdriven_dagster.engine.queries.schemas import WINDOW_START, window_column
from logdriven_dagster.errors import TerminalStepError

HOW_TO_DECIDE = (
    "Write `existing_rows: keep` in the target if they should, `existing_rows: replace` if the "
    "first window should remove them all, or use `mode: upsert` with a `key` to update them"
)


def stay_beside(target: IcebergTarget | JdbcTarget) -> bool:
    """Whether rows of others would stay beside those of windows, and nobody wants that."""
    by_window = target.mode in ("append", "overwrite_window")
    return by_window and window_column(target) == WINDOW_START and target.existing_rows != "keep"


def refusal(table: str) -> TerminalStepError:
    """What to raise at the first contact if nobody has decided."""
    return TerminalStepError(
        f"{table} holds rows that no window wrote (none has a {WINDOW_START}); they would stay "
        f"beside what is loaded now. {HOW_TO_DECIDE}"
    )
