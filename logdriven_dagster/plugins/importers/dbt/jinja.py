"""Resolution of `ref`, `source`, `var`, `config`, `this` and `is_incremental()` in a model's code.

No other Jinja is evaluated. `compiled_code` of a manifest is never read: it has been compiled for
one batch and for one answer of `is_incremental()`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Find: TypeAlias = Callable[[str, str], str]
"""Returns the SQL for the arguments of `ref`, `source` or `var`; raises LookupError for others."""

Incremental: TypeAlias = Literal["never", "by_column", "unknown"]
"""Meaning of `is_incremental()`: false in every run; a filter on the newest row; or not known."""

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_TAG = re.compile(
    rf"\{{\{{(?P<expression>(?:{_QUOTED}|(?!\}}\}})[^'\"])*)\}}\}}"
    rf"|\{{%(?P<statement>(?:{_QUOTED}|(?!%\}})[^'\"])*)%\}}|\{{#.*?#\}}",
    re.DOTALL,
)
_CALL = re.compile(r"(ref|source|var)\s*\((.*?)\)(\.render\(\))?", re.DOTALL)
_CONFIG = re.compile(r"config\s*\(.*\)", re.DOTALL)
_CLOSING = re.compile(r"(else|elif|end\w+)\b")
_THIS = "{{ this }}"
_NOT_EVALUATED = (
    "Jinja other than ref, source, var, config, this and is_incremental() is not evaluated"
)
_NEWEST = re.compile(
    r"\s*(?P<word>where|and)\s+(?P<column>[\w.]+)\s*>=?\s*\(\s*select\s+"
    r"(?:max\(\s*(?P<newest>\w+)\s*\)|coalesce\(\s*max\(\s*(?P<first>\w+)\s*\)\s*,[^()]*\))"
    r"\s+from\s+\{\{ this \}\}\s*\)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a model's code that cannot be resolved."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """The SQL of a model, or the parts that prevent it."""

    sql: str
    window_column: str | None = None
    """Column that `is_incremental()` compares with the newest row of the table."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


def resolve(code: str, find: Find, incremental: Incremental) -> Resolved:
    """Return the SQL of a model's code.

    Args:
        code: The model's `raw_code`.
        find: Returns the SQL for a `ref`, `source` or `var`.
        incremental: Meaning of `is_incremental()` for the model. With `by_column`, one block
            `{% if is_incremental() %} where x > (select max(x) from {{ this }}) {% endif %}`
            becomes the filter for the window.
    """
    return _Resolver(find, incremental).resolve(_split(code))


def _split(code: str) -> list[_Token]:
    """Return texts, expressions and statements in order; `-` in a tag removes white space."""
    tokens: list[_Token] = []
    position, strip = 0, False
    for match in _TAG.finditer(code):
        text = code[position : match.start()]
        text = text.lstrip() if strip else text
        tag = match[0]
        text = text.rstrip() if tag[2] == "-" else text
        strip, line = tag[-3] == "-", code.count("\n", 0, match.start()) + 1
        tokens.append(_Token("text", text, code.count("\n", 0, position) + 1))
        tokens += [
            _Token(kind, inner.strip("-+").strip(), line)
            for kind, inner in match.groupdict().items()
            if inner is not None
        ]
        position = match.end()
    rest = code[position:].lstrip() if strip else code[position:]
    return [*tokens, _Token("text", rest, code.count("\n", 0, position) + 1)]


class _Resolver:
    def __init__(self, find: Find, incremental: Incremental) -> None:
        self._find, self._incremental = find, incremental
        self._problems: list[Problem] = []
        self._window_column: str | None = None

    def resolve(self, tokens: Sequence[_Token]) -> Resolved:
        sql = self._without_blocks(tokens)
        if _THIS in sql:
            line = next(each.line for each in tokens if each.text == "this")
            reason = (
                "a rerun would read its own rows; write the table's name, restricted to earlier "
                "windows, and declare its `columns`"
            )
            self._report(line, _THIS, reason)
        if not self._problems and re.search(r"\{\{|\{%|\{#", sql):
            self._report(1, "{{", "a tag of Jinja is not closed")
        problems = tuple(dict.fromkeys(self._problems))
        return Resolved(sql.strip(), self._window_column, problems)

    def _without_blocks(self, tokens: Sequence[_Token]) -> str:
        """Return the SQL without blocks of `is_incremental()`."""
        texts = [""]
        opened: list[_Token] = []
        in_else = False
        then, otherwise = "", ""
        for token in tokens:
            statement = re.sub(r"\s+", "", token.text) if token.kind == "statement" else ""
            if statement == "ifis_incremental()" and not opened:
                opened, in_else, then, otherwise = [token], False, "", ""
            elif statement == "else" and opened and not in_else:
                in_else = True
            elif statement == "endif" and opened:
                texts.append(self._choose(opened.pop(), then, otherwise, in_else=in_else))
            elif statement or token.kind == "statement":
                self._report_statement(token)
            elif opened and in_else:
                otherwise += self._text(token)
            elif opened:
                then += self._text(token)
            else:
                texts.append(self._text(token))
        if opened:
            self._report_statement(opened[0])
        return "".join(texts)

    def _choose(self, token: _Token, then: str, otherwise: str, *, in_else: bool) -> str:
        """Return the SQL for a block of `is_incremental()`."""
        if self._incremental == "never":
            return otherwise
        body = re.sub(r"--[^\n]*", "", then)
        if not body.strip() and not otherwise.strip():
            return ""
        match = None if in_else else _NEWEST.fullmatch(body)
        column = match["column"] if match else ""
        newest = (match["newest"] or match["first"]) if match else None
        same = newest is not None and column.rpartition(".")[2].lower() == newest.lower()
        if self._incremental == "unknown" or match is None or not same or self._window_column:
            reason = (
                "only one filter such as `where x > (select max(x) from {{ this }})` of an "
                "incremental model becomes windows; write the condition with :data_range_start "
                "and :data_range_end"
            )
            self._report(token.line, f"{{% {token.text} %}}", reason)
            return ""
        self._window_column = newest
        condition = f"{column} >= :data_range_start AND {column} < :data_range_end"
        start = "\n" if then.lstrip(" \t").startswith("\n") else " "
        return f"{start}{match['word']} {condition}\n"

    def _text(self, token: _Token) -> str:
        if token.kind == "text":
            return token.text
        if token.text == "this":
            return _THIS
        if _CONFIG.fullmatch(token.text):
            return ""
        call = _CALL.fullmatch(token.text)
        if call is None:
            reason = _NOT_EVALUATED
            self._report(token.line, f"{{{{ {token.text} }}}}", reason)
            return ""
        try:
            return self._find(call[1] + (call[3] or ""), call[2])
        except LookupError as error:
            self._report(token.line, f"{{{{ {token.text} }}}}", str(error.args[0]))
            return ""

    def _report_statement(self, token: _Token) -> None:
        if not _CLOSING.match(token.text):
            reason = _NOT_EVALUATED
            self._report(token.line, f"{{% {token.text} %}}", reason)
        elif not self._problems:
            self._report(token.line, f"{{% {token.text} %}}", "its block does not begin")

    def _report(self, line: int, text: str, reason: str) -> None:
        self._problems.append(Problem(line, " ".join(text.split()), reason))
