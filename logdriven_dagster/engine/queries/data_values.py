"""Values that come from data, on their way into the text of a query or into a path.

Data are the rows of a loop and the bounds of slices. They are put in last and never looked at
again, so no `${env:NAME}` in them is resolved; in SQL they stay values, and in a path they stay
below the folder that the configuration names.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from logdriven_dagster.errors import TerminalStepError

Value: TypeAlias = str | int | float | bool

_REFERENCE = re.compile(r"\$\{(\w+)\}")
_QUOTED_IN_SPARK = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""",
    re.DOTALL,
)
_QUOTED_IN_DATABASES = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_COMMENTS = ("--", "/*")
_WORDS = re.compile(r"\w+(\.\w+)*")
_NO_FOLDER = re.compile(r"[a-z][a-z0-9+.-]*:/*")
_PATTERN = re.compile(r"[*?\[\]{}\\\x00-\x1f]|://")


def into_spark(sql: str, data: Mapping[str, Value]) -> str:
    """Put the values into a query for Spark; TerminalStepError for one that could become SQL."""

    def accept(name: str, text: str, quote: str) -> str:
        if re.search(r"""['"`\\]""", text) or (quote == "`" and "/" in text):
            raise _refused(name, text, "it would end the quotes around it", f"write :{name}")
        return text

    return _filled(sql, data, _QUOTED_IN_SPARK, accept, "write :{name}")


def into_database(sql: str, data: Mapping[str, Value]) -> str:
    """Put the values into a query or table name for a database; errors as in `into_spark`.

    A value between single quotes is a literal, in which only the quotes have to be doubled: a
    backslash means something in some databases, so it is refused.
    """

    def accept(name: str, text: str, quote: str) -> str:
        if quote == "'" and "\\" not in text:
            return text.replace("'", "''")
        if re.search(r"""['"`\\]""", text):
            raise _refused(name, text, "it would end the quotes around it", "leave such rows out")
        return text

    fix = "put it between single quotes, or leave such rows out"
    # With backslashes in the query nobody knows where its quotes end.
    quoted = re.compile(r"(?!)") if "\\" in sql else _QUOTED_IN_DATABASES
    return _filled(sql, data, quoted, accept, fix)


def into_path(path: str, data: Mapping[str, Value]) -> str:
    """Put the values into a path; TerminalStepError for one that leads out of its folder."""
    first = next((m for m in _REFERENCE.finditer(path) if m[1] in data), None)
    if first is None:
        return path
    folder = path[: path.rfind("/", 0, first.start()) + 1]
    if not folder or _NO_FOLDER.fullmatch(folder):
        fix = "write the folder before it, such as s3://bucket/"
        raise TerminalStepError(f"the path {path} begins with a value of data; {fix}")

    def accept(match: re.Match[str]) -> str:
        if match[1] not in data:
            return match[0]
        text = str(data[match[1]])
        if _PATTERN.search(text):
            raise _refused(match[1], text, "it is not a plain path", "leave such rows out")
        return text

    filled = _REFERENCE.sub(accept, path)
    if ".." in filled[len(folder) :].split("/"):
        text = str(data[first[1]])
        raise _refused(first[1], text, f"it leads out of {folder}", "leave such rows out")
    return filled


def _filled(
    sql: str,
    data: Mapping[str, Value],
    quoted: re.Pattern[str],
    accept: Callable[[str, str, str], str],
    fix: str,
) -> str:
    """Return the query with the values in it; `accept` is asked for each one between quotes."""

    def within(part: str, quote: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in data:
                return match[0]
            text = str(data[name])
            if quote:
                return accept(name, text, quote)
            if isinstance(data[name], str) and not _WORDS.fullmatch(text):
                problem = "outside of quotes only words and numbers can stand"
                raise _refused(name, text, problem, fix.format(name=name))
            return text

        return _REFERENCE.sub(value, part)

    parts, end = list[str](), 0
    for found in quoted.finditer(sql):
        parts.append(within(sql[end : found.start()], ""))
        inner, end = found[0], found.end()
        parts.append(inner if inner.startswith(_COMMENTS) else within(inner, inner.lstrip("rR")[0]))
    return "".join([*parts, within(sql[end:], "")])


def _refused(name: str, text: str, problem: str, fix: str) -> TerminalStepError:
    return TerminalStepError(f"${{{name}}} is {text!r} in the data: {problem}; {fix}")
