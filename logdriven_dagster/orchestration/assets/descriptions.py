"""The Markdown description of a table that Dagster shows on its asset's page."""

from collections.abc import Iterator
from datetime import datetime

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact

_LONGEST_QUERY = 4000
"""Characters; Dagster keeps the description of every asset with its code location."""


def description(project: Project, table: TableConfig) -> str:
    """Return the description in the table's file, its windows, and each step with its query."""
    parts = [table.description or "", _windows(table)]
    parts += [_step(project, table, step) for step in table.steps]
    return redact("\n\n".join(filter(None, parts)))


def _windows(table: TableConfig) -> str:
    if table.is_sliced:
        kind = f"Windows along {table.along.value} (`{table.incremental_type}`)"
        rules = [f"{kind}, checked every {table.period}"]
    else:
        rules = [f"Windows of {table.period} from {_format_time(table.default_start)}"]
        rules += [f"to {_format_time(table.end)}"] if table.end else []
        kind = table.incremental_type
        rules += [] if kind == "time_window" else [f"(`{kind}`)"]
    text = " ".join(rules)
    more = [f"{table.delay} after they end"] if table.delay else []
    more += ["oldest first, never past a failed one" if table.ordered else "in any order"]
    if table.lookback:
        more.append(f"the last {table.lookback} windows again with each new one")
    return f"{text}; {', '.join(more)}."


def _format_time(instant: object) -> str:
    text = f"{instant:%Y-%m-%d %H:%M}" if isinstance(instant, datetime) else str(instant)
    return text.removesuffix(" 00:00")


def _step(project: Project, table: TableConfig, step: StepConfig) -> str:
    """Return a heading with source and target, and the query or the name of the function."""
    lines = [f"**{step.step}** {'; '.join(_ways(table, step))}".rstrip()]
    if (query := project.step_sql(table, step)) is not None:
        shown = query.strip()
        cut = shown[:_LONGEST_QUERY] + "\n-- …" if len(shown) > _LONGEST_QUERY else shown
        lines += ["", "```sql", cut.replace("```", "` ` `"), "```"]
    return "\n".join(lines)


def _ways(table: TableConfig, step: StepConfig) -> Iterator[str]:
    if step.source is not None:
        yield f"reads {_place(step.source.type, step.source.place)}"
    if step.python is not None:
        yield f"calls `{step.python}`"
    if step.target is not None:
        place = step.target.place(table.table)
        yield f"writes {_place(step.target.type, place)}, mode {step.target.mode}"


def _place(kind: str, place: str) -> str:
    return f"`{place}`" if place.startswith(f"{kind} ") else f"{kind} `{place}`"
