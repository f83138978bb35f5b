"""Variables of Sharp ETL's workflows: steps whose target is `variables`.

Constants become variables of the table. Values computed from the window's bounds are inserted into
Spark SQL. The parts of the window's start already exist as built-in variables.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

_OURS = {"YEAR": "yyyy", "MONTH": "MM", "DAY": "dd", "HOUR": "HH", "MINUTE": "mm"}
_WINDOW = frozenset({"DATA_RANGE_START", "DATA_RANGE_END", "JOB_ID", "JOB_NAME"})
_OF_WINDOW = frozenset({"DATA_RANGE_START", "DATA_RANGE_END", *_OURS})
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_BEFORE, _AFTER = r"(?<![\w'\"`.])", r"(?![\w'\"`.])"


def names_of_window(texts: Iterable[str]) -> list[str]:
    """Return the variables of the window that texts use."""
    named = dict.fromkeys(name for text in texts for name in _REFERENCE.findall(text))
    return [name for name in named if name in _OF_WINDOW]


class NoVariablesError(ValueError):
    """A query that depends on more than the window; the message gives the reason."""


@dataclass(slots=True)
class Variables:
    """Meaning of `${name}` in the steps of one workflow."""

    workflow: str
    sliced: bool
    """True for windows without data time, which have no year and no hour."""
    known: Collection[str] = ()
    """Variables of the project."""
    constants: dict[str, str] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)

    def define(self, sql: str) -> None:
        """Add the columns of a query as variables. Raises NoVariablesError if it reads rows."""
        for text, name in _columns(sql):
            if _is_ours(name, text):
                continue
            if constant := re.fullmatch(r"'((?:[^'\\$]|\\.)*)'|(-?\d+(?:\.\d+)?)", text):
                self.constants[name] = constant[1] if constant[2] is None else constant[2]
            else:
                self.computed[name] = self.in_spark(text)

    def in_spark(self, sql: str) -> str:
        """Return a query for Spark, with computed values inserted."""
        for name, expression in self.computed.items():
            reference = re.escape(f"${{{name}}}")
            pattern = rf"'{reference}'|{_BEFORE}{reference}{_AFTER}"
            value = f"({expression})".replace("\\", r"\\")
            sql = re.sub(pattern, value, sql)
        return self.in_text(sql)

    def in_text(self, text: str) -> str:
        """Return a path or database query with renamed variables."""
        text = text.replace("${WORKFLOW_NAME}", self.workflow)
        return text.replace("${TASK_ID}", "${JOB_ID}")

    @property
    def of_window(self) -> frozenset[str]:
        """The variables that have another value in each window."""
        return frozenset({*_OF_WINDOW, *self.computed})

    def constant(self, text: str) -> str:
        """Return a text with constants inserted."""
        return _REFERENCE.sub(lambda match: self.constants.get(match[1], match[0]), text)

    def unknown(self, text: str) -> list[str]:
        """Return the undefined names in a text."""
        parts = frozenset() if self.sliced else _OURS.keys()
        known = {*_WINDOW, *parts, *self.known, *self.constants}
        names = dict.fromkeys(_REFERENCE.findall(text))
        return [n for n in names if n not in known and not n.startswith("env:")]


def _is_ours(name: str, text: str) -> bool:
    """Return True if a variable is a part of the window's start with the same built-in name."""
    pattern = (
        r"from_unixtime\(\s*unix_timestamp\(\s*'\$\{DATA_RANGE_START\}'\s*,\s*'[^']*'\s*\)\s*,"
        rf"\s*'{_OURS.get(name, '-')}'\s*\)"
    )
    return re.fullmatch(pattern, text, re.IGNORECASE) is not None


def _columns(sql: str) -> Iterator[tuple[str, str]]:
    """Yield expression and name of each column of a query without FROM."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    try:
        tokens = Dialect.get_or_raise("spark").tokenize(sql)
    except SqlglotError:
        raise NoVariablesError("its query cannot be read") from None
    if not tokens or tokens[0].token_type is not TokenType.SELECT:
        raise NoVariablesError("it is not a query")
    depth, start = 0, tokens[0].end + 1
    parts: list[str] = []
    for token in tokens[1:]:
        if token.token_type in (TokenType.L_PAREN, TokenType.R_PAREN):
            depth += 1 if token.token_type is TokenType.L_PAREN else -1
        elif depth == 0 and token.token_type is TokenType.COMMA:
            parts.append(sql[start : token.start])
            start = token.end + 1
        elif depth == 0 and token.token_type is TokenType.FROM:
            raise NoVariablesError("its values come from rows; read the rows where they are used")
    for part in [*parts, sql[start:]]:
        match = re.fullmatch(
            r"(.*?)\s+as\s+[`\"']?(\w+)[`\"']?", part.strip(), re.IGNORECASE | re.DOTALL
        )
        if match is None:
            raise NoVariablesError("a column has no name")
        yield match[1].strip(), match[2]
