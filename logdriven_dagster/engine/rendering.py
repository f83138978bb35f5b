"""The values that a step's SQL and paths can name.

Bound parameters, for values: `:data_range_start` and `:data_range_end` (TIMESTAMP), `:job_id`,
`:job_name` (the table), and `:name` of every variable. Text, for everything else:
`${DATA_RANGE_START}` and `${DATA_RANGE_END}` as `yyyy-MM-dd HH:mm:ss` of the project's wall clock,
which a quoted comparison in SQL understands; `${JOB_ID}`, `${JOB_NAME}`; `${YEAR}`, `${MONTH}`,
`${DAY}`, `${HOUR}`, `${MINUTE}` of the window's start with leading zeros, whatever the period; and
`${name}` of every variable. A slice has no time: its range is a pair of whole numbers (keys) or of
texts (offsets, batches). Source: Sharp ETL, variables of a workflow.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from logdriven_dagster.engine.instants import instant_text, literal
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import Along, Slice, TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
PARAMETER = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")
_MARKS = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|" + PARAMETER.pattern,
    re.DOTALL,
)
"""Parameters; texts, quoted names and comments are passed over."""

_BOUNDS = ("data_range_start", "data_range_end")

Value: TypeAlias = str | int | float | bool


def render(text: str, run: WindowRun) -> str:
    """The text with each `${name}` replaced; `${env:NAME}` stays for whoever resolves secrets.

    Raises TerminalStepError for a name that does not exist.
    """
    return substitute(text, _texts(run))


def substitute(text: str, values: Mapping[str, str]) -> str:
    """The same with values that are no window's."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("env:"):
            return match[0]
        if name not in values:
            known = ", ".join(sorted(values))
            raise TerminalStepError(f"unknown variable ${{{name}}}; known are {known}")
        return values[name]

    return _REFERENCE.sub(value, text)


def parameters(sql: str, run: WindowRun) -> "dict[str, Value | Column]":
    """The bound parameters that occur in the query, as Spark takes them."""
    named = set(PARAMETER.findall(sql))
    return {name: value for name, value in _parameters(run).items() if name in named}


def _parameters(run: WindowRun) -> "dict[str, Value | Column]":
    job: dict[str, Value | Column] = {"job_id": run.job_id, "job_name": run.table}
    if not isinstance(run.window, Slice):
        return {**run.variables, **job}
    low, high = run.window.low, run.window.high or ""
    bounds: tuple[Value | Column, Value | Column] = (low, high)
    if run.window.along is Along.KEYS:
        bounds = literal(int(low)), literal(int(high or low))
    return {**run.variables, **job, **dict(zip(_BOUNDS, bounds, strict=True))}


def with_instants(sql: str, run: WindowRun) -> str:
    """The query with the bounds of a window of time written out.

    Spark writes bound values into the text of a query, a TIMESTAMP without its offset: the second
    of the two hours when clocks go back would become the first.
    """
    if isinstance(run.window, Slice):
        return sql
    bounds = (instant_text(run.window.start), instant_text(run.window.end))
    texts = dict(zip(_BOUNDS, bounds, strict=True))
    return _MARKS.sub(lambda match: texts.get(match[1], match[0]), sql)


def _texts(run: WindowRun) -> dict[str, str]:
    variables = {name: str(value) for name, value in run.variables.items()}
    job = {"JOB_ID": str(run.job_id), "JOB_NAME": run.table}
    return variables | job | _range_texts(run.window)


def _range_texts(window: TimeWindow) -> dict[str, str]:
    if isinstance(window, Slice):
        return {"DATA_RANGE_START": window.low, "DATA_RANGE_END": window.high or ""}
    start = window.start
    return {
        "DATA_RANGE_START": _clock(start),
        "DATA_RANGE_END": _clock(window.end),
        "YEAR": f"{start:%Y}",
        "MONTH": f"{start:%m}",
        "DAY": f"{start:%d}",
        "HOUR": f"{start:%H}",
        "MINUTE": f"{start:%M}",
    }


def _clock(moment: datetime) -> str:
    text = f"{moment:%Y-%m-%d %H:%M:%S}"
    # When clocks go back an hour exists twice; only with its offset is the second one itself.
    return text + moment.isoformat()[-6:] if moment.fold else text
