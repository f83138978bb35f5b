"""The first window of a table that other programs filled: the effect on existing rows.

The first window is the first contact as long as the table has rows and none of them has a
`_window_start`. The table itself shows this, so concurrent windows, windows that are repeated after
a crash, and windows that are published later next to kept rows all decide correctly. No decision is
needed where a window replaces rows by key, by one of their columns, or as a whole.
"""

from collections.abc import Sequence

from logdriven_dagster.config.models.types.targets import TableTarget
from logdriven_dagster.engine.queries.schemas import WINDOW_START, window_column
from logdriven_dagster.errors import TerminalStepError

HOW_TO_DECIDE = (
    "Set `existing_rows: keep` in the target to keep them, `existing_rows: "
    "replace` to let the first window remove them all, or `mode: upsert` with "
    "a `key` to update them"
)


def leaves_existing_rows(target: TableTarget) -> bool:
    """Return True if existing rows would stay next to those of windows without a decision."""
    by_window = target.write_mode.keeps_windows_apart and window_column(target) == WINDOW_START
    return by_window and target.existing_rows != "keep"


def what_becomes(name: str, target: TableTarget, pre_sql: Sequence[str] = ()) -> str:
    """Describe the effect of the first windows on existing rows, by mode and decision."""
    holds = f"{name} has rows that no window wrote"
    if not leaves_existing_rows(target):
        return f"{holds}: {_stay_or_go(target)}"
    if target.existing_rows == "replace":
        return f"{holds}: the first window will remove them all"
    if pre_sql:
        return f"{holds}: the first window will be refused unless its pre_sql removes them"
    return f"{holds}: the first window will be refused. {HOW_TO_DECIDE}"


def _stay_or_go(target: TableTarget) -> str:
    if target.write_mode.keeps_history:
        return "those with the columns of a version will be closed by changes of their keys"
    if target.write_mode.merges_by_key:
        return "those with a loaded key will be updated, the others stay"
    if target.write_mode.replaces_whole_table:
        return "the first window will replace them all"
    if target.existing_rows == "keep":
        return "they stay in addition to the loaded rows"
    return (
        f"those whose {target.window_column} is in a window are replaced with it, the others stay"
    )


def refusal(table: str) -> TerminalStepError:
    """Return the error for a first contact without a decision."""
    return TerminalStepError(
        f"{table} has rows that no window wrote (none has a {WINDOW_START}); they "
        f"would stay in addition to the loaded rows. {HOW_TO_DECIDE}"
    )
