"""Variables of Sharp ETL's workflows: steps whose target is `variables`.

Constants become variables of the table. Values computed from the window's bounds are inserted into
Spark SQL; a bound in another format is a built-in variable in every text, such as
`${DATA_RANGE_END:yyyyMMdd}`. Values of rows are read by a step of their own. The steps that use
them run for its row (`loop_over`).
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

_OURS = {"YEAR": "yyyy", "MONTH": "MM", "DAY": "dd", "HOUR": "HH", "MINUTE": "mm"}
_WINDOW = frozenset({"DATA_RANGE_START", "DATA_RANGE_END", "JOB_ID", "JOB_NAME"})
_OF_WINDOW = frozenset({"DATA_RANGE_START", "DATA_RANGE_END", *_OURS})
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_STANDARD = "yyyy-MM-dd HH:mm:ss"
_PARTS = frozenset({"yyyy", "yy", "MM", "dd", "HH", "mm", "ss"})
_BOUND = r"'\$\{(?P<bound>DATA_RANGE_(?:START|END))\}'"
_INPUT = rf"\s*{_BOUND}\s*(?:,\s*['\"]{_STANDARD}['\"]\s*)?"
_FORMAT = r"['\"](?P<format>[^'\"]*)['\"]"
_FORMATTED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        _BOUND,
        rf"from_unixtime\(\s*unix_timestamp\({_INPUT}\)\s*(?:,\s*{_FORMAT}\s*)?\)",
        rf"date_format\(\s*to_timestamp\({_INPUT}\)\s*,\s*{_FORMAT}\s*\)",
        rf"date_format\(\s*{_BOUND}\s*,\s*{_FORMAT}\s*\)",
    )
)
_BEFORE, _AFTER = r"(?<![\w'\"`.])", r"(?![\w'\"`.])"


def names_of_window(texts: Iterable[str]) -> list[str]:
    """Return the variables of the window that texts use."""
    named = dict.fromkeys(name for text in texts for name in _REFERENCE.findall(text))
    return [name for name in named if name in _OF_WINDOW]


def names_of_start(texts: Iterable[str]) -> list[str]:
    """Return the parts of the window's start that texts use, such as `YEAR`."""
    return [name for name in names_of_window(texts) if name in _OURS]


class NoVariablesError(ValueError):
    """A query whose columns cannot be variables; the message gives the reason."""


class VariablesOfRowsError(NoVariablesError):
    """A query that reads rows, so that its values are known only when a window runs."""


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
    texts: dict[str, str] = field(default_factory=dict)
    """Built-in variables with the same text as a computed value."""
    of_rows: dict[str, str] = field(default_factory=dict)
    """Step with the row of each value that is read from rows."""

    def define(self, sql: str) -> None:
        """Add the columns of a query as variables.

        Raises VariablesOfRowsError if it reads rows, and NoVariablesError if it is not a query
        with names, or if it changes a constant, which has one value in all steps.
        """
        for text, name in _columns(sql):
            found = re.fullmatch(r"'((?:[^'\\$]|\\.)*)'|(-?\d+(?:\.\d+)?)", text)
            constant = found and (found[1] if found[2] is None else found[2])
            self._refuse_second_value(name, constant)
            self._forget(name)
            if _is_ours(name, text):
                continue
            if constant is not None:
                self.constants[name] = constant
                continue
            self.computed[name] = self.in_spark(text)
            if not self.sliced and (same := _as_text(text)):
                self.texts[name] = same

    def define_by_rows(self, names: Iterable[str], step: str) -> None:
        """Add the columns of a step's row. Raises NoVariablesError if it changes a constant."""
        for name in names:
            self._refuse_second_value(name, None)
            self._forget(name)
            self.of_rows[name] = step

    def _refuse_second_value(self, name: str, value: str | None) -> None:
        if name in self.constants and self.constants[name] != value:
            raise NoVariablesError(f"{name} gets a second value; give it another name")

    def _forget(self, name: str) -> None:
        for values in (self.computed, self.texts, self.of_rows):
            values.pop(name, None)

    def find_row_values(self, text: str) -> dict[str, str]:
        """Return the values of rows that a text uses, with the steps that read them."""
        names = _REFERENCE.findall(text)
        return {name: self.of_rows[name] for name in names if name in self.of_rows}

    def in_spark(self, sql: str) -> str:
        """Return a query for Spark, with computed values inserted."""
        for name, expression in self.computed.items():
            reference = re.escape(f"${{{name}}}")
            pattern = rf"'{reference}'|{_BEFORE}{reference}{_AFTER}"
            value = f"({expression})".replace("\\", r"\\")
            sql = re.sub(pattern, value, sql)
        return self.in_text(sql)

    def in_value(self, text: str) -> str:
        """Return a text as an expression of Spark SQL, with computed values joined to it."""
        computed = self.computed.keys() - self.texts.keys()
        names = "|".join(map(re.escape, computed))
        parts = re.split(rf"\$\{{({names})\}}", text) if names else [text]
        values = [
            f"({self.computed[part]})" if n % 2 else _quote(self.in_text(part))
            for n, part in enumerate(parts)
            if part
        ]
        return values[0] if len(values) == 1 else f"concat({', '.join(values)})"

    def in_text(self, text: str) -> str:
        """Return a path or database query with renamed variables."""
        text = _REFERENCE.sub(lambda match: self.texts.get(match[1], match[0]), text)
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
        known |= {variable[2:-1] for variable in self.texts.values()}
        names = dict.fromkeys(_REFERENCE.findall(text))
        return [n for n in names if n not in known and not n.startswith("env:")]


def _quote(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace("'", r"\'")
    return f"'{escaped}'"


def list_names(sql: str) -> list[str]:
    """Return the names of a query's columns. Raises NoVariablesError if one has none."""
    from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query

    try:
        names: list[str] = parse_query(sql).named_selects
    except UnreadableSqlError as error:
        raise NoVariablesError(f"its query cannot be read: {error}") from None
    if not all(re.fullmatch(r"\w+", name) for name in names):
        raise NoVariablesError("a column has no name")
    return names


def _is_ours(name: str, text: str) -> bool:
    """Return True if a variable is a part of the window's start with the same built-in name."""
    pattern = (
        r"from_unixtime\(\s*unix_timestamp\(\s*'\$\{DATA_RANGE_START\}'\s*,\s*'[^']*'\s*\)\s*,"
        rf"\s*'{_OURS.get(name, '-')}'\s*\)"
    )
    return re.fullmatch(pattern, text, re.IGNORECASE) is not None


def _as_text(expression: str) -> str | None:
    """Return the built-in variable with the text of a formatted bound, or None."""
    for pattern in _FORMATTED:
        if match := pattern.fullmatch(expression.strip()):
            given = match.groupdict().get("format") or _STANDARD
            letters = [each[0] for each in re.finditer(r"([A-Za-z])\1*", given)]
            if not _PARTS.issuperset(letters) or re.search(r"[^\w\s/:.,-]", given):
                return None
            bound = match["bound"].upper()
            return f"${{{bound}}}" if given == _STANDARD else f"${{{bound}:{given}}}"
    return None


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
            raise VariablesOfRowsError("its values come from rows")
    for part in [*parts, sql[start:]]:
        match = re.fullmatch(
            r"(.*?)\s+as\s+[`\"']?(\w+)[`\"']?", part.strip(), re.IGNORECASE | re.DOTALL
        )
        if match is None:
            raise NoVariablesError("a column has no name")
        yield match[1].strip(), match[2]
