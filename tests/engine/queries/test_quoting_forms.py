"""A value of a row stays a value in every quoting form of every dialect, or is refused.

Queries of random forms, with comments between them, run in the real engines: each column must
hold the text that its form quotes, with the value in its place.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from logdriven_dagster.config.sql.lexing import get_dialect
from logdriven_dagster.engine.queries.data_values import into_database, into_spark
from logdriven_dagster.errors import TerminalStepError
from tests.random_examples import examples

MARK = "${row_f}"
NASTY = [
    "' OR 1=1 --", "x'", "''", "\\' OR 1=1 --", '"', "`", "$$ OR 1=1 --", "$a$", "]' OR 1=1 --",
    "*/ OR 1=1 /*", "# x", "-- x", "1 OR 1=1", "eu", "a, b", "O'Brien", "\n", "(SELECT 1)", "E",
    "\u00a0x", ";", "", "{#", "表 ' x",
]  # fmt: skip
# MariaDB's N'…' has no characters beyond these.
_STORABLE = st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"])
VALUES = st.sampled_from(NASTY) | st.text(_STORABLE, max_size=6)

Ask = Callable[[str], Any]
Form = tuple[str, str, Callable[[str], str]]
"""What opens and closes a text, and how the text is written in it."""


def doubled(quote: str) -> Callable[[str], str]:
    return lambda text: text.replace(quote, quote * 2)


def escaped(text: str) -> str:
    return re.sub(r"(['\"\\])", r"\\\1", text)


def doubled_and_escaped(quote: str) -> Callable[[str], str]:
    return lambda text: text.replace("\\", "\\\\").replace(quote, quote * 2)


def unchanged(text: str) -> str:
    return text


FORMS: dict[str, Sequence[Form]] = {
    "postgresql": [
        ("'", "'", doubled("'")),
        ("N'", "'", doubled("'")),
        ("E'", "'", escaped),
        ("$$", "$$", unchanged),
        ("$a$", "$a$", unchanged),
        ("U&'", "'", doubled("'")),
    ],
    "mysql": [
        ("'", "'", doubled_and_escaped("'")),
        ("'", "'", escaped),
        ('"', '"', doubled_and_escaped('"')),
        ('"', '"', escaped),
        ("N'", "'", doubled_and_escaped("'")),
        ("_utf8mb4'", "'", doubled_and_escaped("'")),
    ],
    "sqlite": [("'", "'", doubled("'"))],
    "spark": [
        ("'", "'", escaped),
        ('"', '"', escaped),
        ("r'", "'", lambda text: text.replace("'", "")),
        ('R"', '"', lambda text: text.replace('"', "")),
    ],
}
NAMES = {"postgresql": ['"'], "mysql": ["`"], "sqlite": ['"', "`"], "spark": ["`"]}
COMMENTS = {
    "postgresql": ["-- it's\n", "/* it's /* ' */ $$ ' */", "--'\n", '/* " */'],
    "mysql": ["-- it's\n", "# it's\n", "#'\n", "/* it's /* \" */", "/* ` */"],
    "sqlite": ["-- it's\n", "/* it's /* \" */", "/* [ */"],
    "spark": ["-- it's\n", "/* it's /* ' */ ' */", '/* " */', "/* ` */"],
}
WORDS = ["x", "it's", 'say "no"', "a\\b", "-- x", "/* x", "# x", "a b", ""]


@st.composite
def columns(draw: st.DrawFn, dialect: str) -> tuple[str, list[str]]:
    """A query of one row, and what its columns hold where a mark stands for the value."""
    sql, expected = "SELECT ", list[str]()
    for n in range(draw(st.integers(1, 4))):
        sql += draw(st.sampled_from(["", *COMMENTS[dialect]]))
        opening, closing, written = draw(st.sampled_from(FORMS[dialect]))
        before, after = draw(st.sampled_from(WORDS)), draw(st.sampled_from(WORDS))
        if opening == "U&'":
            before, after = before.replace("\\", ""), after.replace("\\", "")
        if opening[0] in "rR":
            before, after = written(before), written(after)
        middle = draw(st.sampled_from(["", MARK, MARK]))
        text = written(before) + middle + written(after)
        quote = draw(st.sampled_from(NAMES[dialect]))
        sql += f"{', ' if n else ''}{opening}{text}{closing} AS {quote}c{n}'s{quote}"
        expected.append(before + middle + after)
    return sql + draw(st.sampled_from(["", *COMMENTS[dialect]])), expected


def is_filled(dialect: str, query: tuple[str, list[str]], value: str, ask: Ask) -> bool:
    """Whether the value was put in; then the engine must have found it, and nothing else."""
    (sql, expected), data = query, {"row_f": value}
    try:
        made = (
            into_spark(sql, data)
            if dialect == "spark"
            else into_database(sql, data, get_dialect(dialect))
        )
    except TerminalStepError:
        return False
    assert list(ask(made)) == [each.replace(MARK, value) for each in expected], made
    return True


RANDOM = settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def asked(request, tmp_path):
    """A function that asks a database of the given kind for the one row of a query."""
    engines = []

    def of(database: str) -> Callable[[str], Any]:
        fixture = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}.get(database)
        url = request.getfixturevalue(fixture) if fixture else f"sqlite:///{tmp_path / 'x.db'}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        connection = engine.connect()
        engines.append((engine, connection))

        def ask(sql: str) -> Any:
            # Without parameters, so that the driver leaves the text as it is.
            cursor = connection.connection.cursor()
            cursor.execute(sql)
            return cursor.fetchone()

        return ask

    yield of
    for engine, connection in engines:
        connection.close()
        engine.dispose()


@pytest.mark.sampled
@pytest.mark.parametrize("database", ["postgresql", "mariadb", "sqlite"])
def test_a_value_stays_one_in_every_quoting_form_of_a_database(asked, database):
    dialect = "mysql" if database == "mariadb" else database
    ask, filled = asked(database), []

    @RANDOM
    @given(columns(dialect), VALUES)
    def check(query: tuple[str, list[str]], value: str) -> None:
        filled.append(is_filled(dialect, query, value, ask))

    check()
    assert sum(filled) > len(filled) / 10


def test_a_value_stays_one_in_every_quoting_form_of_spark(spark):
    filled = []

    @settings(RANDOM, max_examples=examples(40))
    @given(columns("spark"), VALUES)
    def check(query: tuple[str, list[str]], value: str) -> None:
        filled.append(is_filled("spark", query, value, lambda sql: spark.sql(sql).first()))

    check()
    assert sum(filled) > len(filled) / 10
