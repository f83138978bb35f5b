"""Values that a step's SQL and paths can reference.

Bound parameters, for values: `:data_range_start` and `:data_range_end` (TIMESTAMP), `:job_id`,
`:job_name` (the table), and `:name` of every variable. Text, for everything else:
`${DATA_RANGE_START}` and `${DATA_RANGE_END}` as `yyyy-MM-dd HH:mm:ss` of the project's wall clock,
which a quoted comparison in SQL understands; both with a format, `${DATA_RANGE_START:yyyyMMdd}`;
in paths `${DATA_RANGE:yyyy-MM-dd}`, every time of the window; `${JOB_ID}`, `${JOB_NAME}`;
`${YEAR}`, `${MONTH}`, `${DAY}`, `${HOUR}`, `${MINUTE}` of the window's start with leading zeros,
for every period; and `${name}` of every variable. A key, offset or batch window has no time: its
range is a pair of integers (keys) or of texts (offsets, batches). Source: Sharp ETL, variables of a
workflow.

Configured values are inserted first, including `${env:NAME}` and `${file:/path}`; then data values,
which are not parsed again (`data_values`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from logdriven_dagster.config.connections import Connection
from logdriven_dagster.config.derived.clock_formats import fill_clock_formats, list_path_texts
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import is_reference, resolve
from logdriven_dagster.config.sql.lexing import get_dialect, list_lexemes
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.engine.queries.data_values import Value, into_database, into_path, into_spark
from logdriven_dagster.engine.queries.instants import instant_text, literal
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import Along, Slice, TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
PARAMETER = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")
_BOUNDS = ("data_range_start", "data_range_end")


def render(sql: str, run: WindowRun) -> str:
    """Replace each `${name}` in a query or name for Spark.

    Raises TerminalStepError for an unknown name, and for data that could become SQL.
    """
    return into_spark(_substitute_variables(sql, run), _data(run))


def render_for_database(sql: str, run: WindowRun, connection: Connection) -> str:
    """Replace each `${name}` in a query or table name for the database of `connection`.

    Raises TerminalStepError for an unknown name, and for data that could become SQL.
    """
    dialect = get_dialect(connection.url.get_backend_name())
    return into_database(_substitute_variables(sql, run), _data(run), dialect)


def render_path(path: str, run: WindowRun, project: Project) -> str:
    """Replace each `${name}` in a source's path; a relative path starts at the project folder.

    Several folders or files of one window become one pattern. Raises TerminalStepError for an
    unknown name, and for data that lead out of the folder.
    """
    return build_pattern(render_paths(path, run, project))


def render_paths(path: str, run: WindowRun, project: Project) -> list[str]:
    """Return the path of a source, or one for each text of `${DATA_RANGE:…}` in its window.

    Raises TerminalStepError as `render_path`.
    """
    texts = [path]
    if not isinstance(run.window, Slice):
        try:
            texts = list_path_texts(path, run.window)
        except ValueError as error:
            raise TerminalStepError(f"path: {error}") from None
    data = _data(run)
    names = [project.resolve_path(_substitute_variables(text, run)) for text in texts]
    return [into_path(name, data) for name in names]


def build_pattern(paths: Sequence[str]) -> str:
    """Return a pattern of Spark that matches what any of these paths and patterns matches."""
    if len(paths) == 1:
        return paths[0]
    parts = zip(*(path.split("/")[:-1] for path in paths), strict=False)
    common = takewhile(lambda names: len(set(names)) == 1, parts)
    start = "".join(f"{names[0]}/" for names in common)
    return f"{start}{{{','.join(path.removeprefix(start) for path in paths)}}}"


def substitute(text: str, values: Mapping[str, str], later: Collection[str] = ()) -> str:
    """Replace each `${name}` of the configuration, and resolve secrets.

    Names in `later` stay. Raises TerminalStepError for an unknown name, and UsageError if an
    environment variable or a file is missing.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in later:
            return match[0]
        if is_reference(match[0]):
            return resolve(match[0])
        if name not in values:
            known = ", ".join(sorted({*values, *later}))
            raise TerminalStepError(f"unknown variable ${{{name}}}; known: {known}")
        return values[name]

    return _REFERENCE.sub(value, text)


def _substitute_variables(text: str, run: WindowRun) -> str:
    if not isinstance(run.window, Slice):
        try:
            text = fill_clock_formats(text, run.window)
        except ValueError as error:
            raise TerminalStepError(str(error)) from None
    return substitute(text, _texts(run), _data(run))


def parameters(sql: str, run: WindowRun) -> "dict[str, Value | Column]":
    """Return the bound parameters that occur in the query, as Spark takes them."""
    named = set(PARAMETER.findall(sql))
    return {name: value for name, value in _parameters(run).items() if name in named}


def _parameters(run: WindowRun) -> "dict[str, Value | Column]":
    job: dict[str, Value | Column] = {"job_id": run.job_id, "job_name": run.table}
    values = {**run.variables, **run.row}
    if not isinstance(run.window, Slice):
        return {**values, **job}
    low, high = run.window.low, run.window.high or ""
    bounds: tuple[Value | Column, Value | Column] = (low, high)
    if run.window.along is Along.KEYS:
        bounds = literal(int(low)), literal(int(high or low))
    return {**values, **job, **dict(zip(_BOUNDS, bounds, strict=True))}


def with_instants(sql: str, run: WindowRun) -> str:
    """Return the query with the bounds of a time window inserted as literals.

    Spark inserts bound values into the text of a query, a TIMESTAMP without its offset: the second
    of the two hours when clocks go back would become the first. Raises TerminalStepError if texts
    and comments of the query cannot be separated.
    """
    if isinstance(run.window, Slice):
        return sql
    bounds = (instant_text(run.window.start), instant_text(run.window.end))
    texts = dict(zip(_BOUNDS, bounds, strict=True))
    if not texts.keys() & set(PARAMETER.findall(sql)):
        return sql
    try:
        found = list_lexemes(sql, "spark")
    except UnreadableSqlError as error:
        raise TerminalStepError(f"the query cannot be read: {error}") from None
    ends = {each.end for each in found if each.kind == "COLON"}
    for each in reversed(found):
        start = each.start - 1
        if start + 1 in ends and each.text in texts and PARAMETER.match(sql, start):
            sql = sql[:start] + texts[each.text] + sql[each.end :]
    return sql


def _texts(run: WindowRun) -> dict[str, str]:
    """Return the values from the configuration, the operator and the engine itself."""
    variables = {name: str(value) for name, value in run.variables.items()}
    job = {"JOB_ID": str(run.job_id), "JOB_NAME": run.table}
    return variables | job | ({} if isinstance(run.window, Slice) else _clock_texts(run.window))


def _data(run: WindowRun) -> dict[str, Value]:
    """Return the values from rows and from the source itself."""
    if not isinstance(run.window, Slice):
        return dict(run.row)
    bounds = {"DATA_RANGE_START": run.window.low, "DATA_RANGE_END": run.window.high or ""}
    return {**run.row, **bounds}


def _clock_texts(window: TimeWindow) -> dict[str, str]:
    start = window.start_clock
    return {
        "DATA_RANGE_START": _clock(start),
        "DATA_RANGE_END": _clock(window.end_clock),
        "YEAR": f"{start:%Y}",
        "MONTH": f"{start:%m}",
        "DAY": f"{start:%d}",
        "HOUR": f"{start:%H}",
        "MINUTE": f"{start:%M}",
    }


def _clock(instant: datetime) -> str:
    text = f"{instant:%Y-%m-%d %H:%M:%S}"
    # When clocks go back, an hour exists twice; only the offset identifies the second one.
    return text + instant.isoformat()[-6:] if instant.fold else text
