"""The first window of a table that others filled: what becomes of their rows.

It is the first contact as long as the table has rows and none of them has a `_window_start`. That
can be seen in the table itself, so windows that come side by side, again after a crash, or later
beside rows that were kept, see the right thing. Where a window replaces rows by their key, by a
column of theirs, or all of them, nobody has to decide.
"""

from collections.abc import Sequence

from logdriven_dagster.config.models.types.targets import TableTarget
from logdriven_dagster.engine.queries.schemas import WINDOW_START, window_column
from logdriven_dagster.errors import TerminalStepError

HOW_TO_DECIDE = (
    "Write `existing_rows: keep` in the target if they should, `existing_rows: replace` if the "
    "first window should remove them all, or use `mode: upsert` with a `key` to update them"
)


def stay_beside(target: TableTarget) -> bool:
    """Whether rows of others would stay beside those of windows, and nobody wants that."""
    by_window = target.write_mode.keeps_windows_apart and window_column(target) == WINDOW_START
    return by_window and target.existing_rows != "keep"


def what_becomes(name: str, target: TableTarget, pre_sql: Sequence[str] = ()) -> str:
    """What the first windows do with rows of others, by the target's mode and decision."""
    holds = f"{name} holds rows that no window wrote"
    if not stay_beside(target):
        return f"{holds}: {_stay_or_go(target)}"
    if target.existing_rows == "replace":
        return f"{holds}: the first window will remove them all"
    if pre_sql:
        return f"{holds}: the first window will be refused unless its pre_sql removes them"
    return f"{holds}: the first window will be refused. {HOW_TO_DECIDE}"


def _stay_or_go(target: TableTarget) -> str:
    if target.write_mode.merges_by_key:
        return "those with a key that comes will be updated, the others stay"
    if target.write_mode.replaces_whole_table:
        return "the first window will replace them all"
    if target.existing_rows == "keep":
        return "they stay beside what is loaded"
    return f"those whose {target.window_column} lies in a window go with it, others stay"


def refusal(table: str) -> TerminalStepError:
    """Return the error for a first contact about which nobody has decided."""
    return TerminalStepError(
        f"{table} holds rows that no window wrote (none has a {WINDOW_START}); they would stay "
        f"beside what is loaded now. {HOW_TO_DECIDE}"
    )
