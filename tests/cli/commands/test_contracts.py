"""Frozen columns in `logdriven changes`: the edits that break them have the class contract."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine

NOW = ("--now", "2022-01-04")
FROZEN, READER = "dws.frozen", "ads.reader"
QUERY = "SELECT id, n FROM t WHERE id > 1"
COLUMNS = "id BIGINT NOT NULL COMMENT 'the order', n INT"


def write(folder: Path, name: str, sql: str, **fields: object) -> None:
    step = {"step": "load", "sql": sql, "target": {"type": "iceberg"}}
    table = {"table": name, "period": "1 day", "default_start": "2022-01-01", "steps": [step]}
    (folder / "tables" / f"{name}.yaml").write_text(json.dumps({**table, **fields}))


@pytest.fixture
def folder(null_project: Path, logdriven: CommandLine) -> Path:
    """A table with frozen columns, and one with frozen columns that reads all of it."""
    frozen = {"schema": "frozen", "columns": COLUMNS}
    write(null_project, FROZEN, QUERY, **frozen)
    write(null_project, READER, f"SELECT * FROM {FROZEN}", depends_on=[FROZEN], **frozen)
    assert logdriven("run", *NOW).code == 0
    return null_project


def found(logdriven: CommandLine) -> tuple[str, list[str]]:
    """The class of the only edited table, and its changes of this class."""
    (change,) = logdriven("changes", "--json", *NOW).json
    texts = [each["change"] for each in change["changes"] if each["effect"] == change["effect"]]
    return change["effect"], texts


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"columns": "n INT", "schema": "frozen"}, "removed frozen column id"),
        (
            {"columns": "id BIGINT NOT NULL, n BIGINT", "schema": "frozen"},
            "frozen column n is BIGINT, not INT",
        ),
        ({"columns": "id BIGINT, n INT", "schema": "frozen"}, "frozen column id may be NULL"),
        ({"columns": COLUMNS}, "its columns are no longer frozen"),
    ],
)
def test_an_edit_of_frozen_columns_has_the_class_contract(
    folder: Path, logdriven: CommandLine, fields: dict[str, Any], text: str
):
    write(folder, FROZEN, QUERY, **fields)
    effect, texts = found(logdriven)
    assert (effect, texts[0]) == ("contract", text)
    assert logdriven("changes", "--fail-on", "contract", *NOW).code == 1
    assert logdriven("changes", "--fail-on", "shape", *NOW).code == 1
    assert "contract" in logdriven("changes", *NOW).out


@pytest.mark.parametrize("columns", ["id bigint, n DECIMAL( 9, 2 )", "id LONG, n numeric(9, 2)"])
def test_another_spelling_of_a_type_breaks_no_contract(
    null_project: Path, logdriven: CommandLine, columns: str
):
    write(null_project, FROZEN, QUERY, schema="frozen", columns="id BIGINT, n DECIMAL(9,2)")
    assert logdriven("run", *NOW).code == 0
    write(null_project, FROZEN, QUERY, schema="frozen", columns=columns)
    assert found(logdriven)[0] in ("none", "cosmetic")


def test_a_result_with_other_names_than_the_frozen_columns_breaks_the_contract(
    folder: Path, logdriven: CommandLine
):
    write(folder, FROZEN, "SELECT id, m FROM t", schema="frozen", columns=COLUMNS)
    effect, texts = found(logdriven)
    assert effect == "contract"
    assert texts[:2] == [
        "the result has column m, which is not among the frozen columns",
        "the result lacks the frozen column n",
    ]


def declare_new_column(folder: Path) -> None:
    """Add a column to the frozen table and to its declared columns."""
    query, columns = "SELECT id, n, 1 AS new FROM t WHERE id > 1", f"{COLUMNS}, new INT"
    write(folder, FROZEN, query, schema="frozen", columns=columns)


def test_a_new_column_breaks_the_frozen_columns_of_a_reader_of_all_columns(
    folder: Path, logdriven: CommandLine
):
    declare_new_column(folder)
    assert found(logdriven) == (
        "contract",
        [f"frozen columns of {READER}, which reads it"],
    )


def test_a_new_declared_column_that_no_reader_sees_keeps_the_contract(
    folder: Path, logdriven: CommandLine
):
    write(
        folder,
        READER,
        f"SELECT id, n FROM {FROZEN}",
        depends_on=[FROZEN],
        schema="frozen",
        columns=COLUMNS,
    )
    assert logdriven("run", *NOW).code == 0
    declare_new_column(folder)
    assert found(logdriven)[0] == "additive"


def test_other_rows_break_no_contract(folder: Path, logdriven: CommandLine):
    write(folder, FROZEN, QUERY.replace("> 1", "> 2"), schema="frozen", columns=COLUMNS)
    assert found(logdriven)[0] == "values"
    assert logdriven("changes", "--fail-on", "contract", *NOW).code == 0


def test_a_deleted_frozen_table_breaks_its_contract(folder: Path, logdriven: CommandLine):
    (folder / "tables" / f"{READER}.yaml").unlink()
    assert found(logdriven) == ("contract", ["the frozen table is deleted"])


def test_a_table_becomes_frozen_without_old_windows(folder: Path, logdriven: CommandLine):
    write(folder, "ods.t", QUERY, columns=COLUMNS)
    assert logdriven("run", *NOW).code == 0
    write(folder, "ods.t", QUERY, columns=COLUMNS, schema="frozen")
    assert found(logdriven)[0] == "cosmetic"
    assert "by older versions" not in logdriven("status", *NOW).out


def test_frozen_columns_must_be_declared(folder: Path, logdriven: CommandLine):
    write(folder, "ods.t", QUERY, schema="frozen")
    result = logdriven("validate")
    assert result.code == 2
    assert "schema: frozen needs columns" in result.err
