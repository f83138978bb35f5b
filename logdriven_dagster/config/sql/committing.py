"""Detection of SQL statements that end their transaction.

MariaDB, MySQL and Oracle commit before and after most statements that are not DML: a `TRUNCATE` in
the transaction that publishes a window would empty the target even if the publication fails.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from logdriven_dagster.config.connections import build_database_url, get_url
from logdriven_dagster.config.models.jobs import MaintenanceJob
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.connections import ConnectionType
from logdriven_dagster.config.sql.lexing import get_dialect
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import ConfigError, UsageError

_COMMITTING = ("mysql", "mariadb", "oracle")
"""Backends whose DDL commits implicitly."""

_KINDS = re.compile(
    "ALTER|ANALYZE|AUDIT|CACHE|CHANGE|CHECK|COMMENT|CREATE|DROP|FLUSH|GRANT|INSTALL|LOCK|OPTIMIZE|"
    "PURGE|RENAME|REPAIR|RESET|REVOKE|SHUTDOWN|TRUNCATE|UNINSTALL|UNLOCK|XA"
)
"""First words of statements that commit implicitly there."""

_ENDS = frozenset({"ABORT", "BEGIN", "COMMIT", "END", "PREPARE", "ROLLBACK", "START"})
"""First words of statements that end or begin a transaction on every database.

PREPARE is one of them only before TRANSACTION.
"""

_BODIES = frozenset({"EVENT", "FUNCTION", "PACKAGE", "PROCEDURE", "TRIGGER"})
"""Words of CREATE statements that contain statements."""

_EXECUTED_COMMENT = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
"""Comment whose content MariaDB executes."""

_VARIABLE = re.compile(r"\$\{[^}]*\}")


def find_ending_statement(sql: str, backend: str) -> str | None:
    """Return the first word of a statement if it would end its transaction, or None."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    text = _VARIABLE.sub("v", _EXECUTED_COMMENT.sub(r" \1 ", sql))
    try:
        tokens = Dialect.get_or_raise(get_dialect(backend)).tokenize(text)
    except (SqlglotError, ValueError):
        return None  # the database reports the syntax error
    words: list[str] = []
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            words.append(token.text.upper())
            continue
        if _is_ending(words, backend) or (
            words[:1] == ["CREATE"] and not _BODIES.isdisjoint(words)
        ):
            break  # semicolons in a trigger's body do not end the statement
        words = []
    return words[0] if _is_ending(words, backend) else None


def _is_ending(words: Sequence[str], backend: str) -> bool:
    if not words:
        return False
    first, following = words[0], words[1:4]
    if first == "PREPARE":  # sqlglot reads the rest of the statement as one word
        return "".join(following).startswith("TRANSACTION")
    if first in _ENDS:
        return not (first == "ROLLBACK" and "TO" in following)
    if backend not in _COMMITTING:
        return False
    if first in ("CREATE", "DROP"):
        return "TEMPORARY" not in following
    if first == "SET":
        return bool({"AUTOCOMMIT", "PASSWORD"} & set(words))
    return _KINDS.fullmatch(first) is not None


def check_statements(
    table: TableConfig, document: Document, config: ProjectConfig
) -> Iterator[ConfigError]:
    """Yield an error for each statement of a table's steps that would end its transaction.

    `config` provides the connections, whose backends determine the committing statements.
    """
    for n, step in enumerate(table.steps):
        for location, sql, connection in step.target.statements() if step.target else ():
            backend = find_backend(config.connections.get(connection))
            if mistake := find_publication_mistake(sql, backend):
                yield document.error(("steps", n, "target", *location), *mistake)
        if step.commit_before_read and table.incremental.looks_first:
            problem = "the end of the key range is read before these statements are executed"
            fix = "move them to a step of a maintenance job, or use incremental_type: full"
            yield document.error(("steps", n, "commit_before_read"), problem, fix)
        for m, script in enumerate(step.commit_before_read):
            backend = find_backend(config.connections.get(script.connection))
            if script.transaction and (mistake := find_script_mistake(script.sql, backend)):
                yield document.error(("steps", n, "commit_before_read", m, "sql"), *mistake)


def check_job_statements(
    job: MaintenanceJob, document: Document, config: ProjectConfig
) -> Iterator[ConfigError]:
    """Yield an error for each maintenance step with a statement that commits implicitly.

    Steps with `transaction: false` are skipped.
    """
    for n, step in enumerate(job.steps):
        backend = find_backend(config.connections.get(step.connection or ""))
        statements = (step.sql,) if isinstance(step.sql, str) else step.sql or ()
        if step.transaction and (mistake := find_script_mistake(statements, backend)):
            yield document.error(("steps", n, "sql"), *mistake)


def find_publication_mistake(sql: str, backend: str | None) -> tuple[str, str | None] | None:
    """Return problem and fix of a statement that would end the publishing transaction, or None."""
    word = find_ending_statement(sql, backend) if backend else None
    if word is None:
        return None
    if word in _ENDS:
        return f"{word} ends the transaction that publishes the window", f"remove {word}"
    problem = (
        f"{word} commits by itself on {backend}, even if the window is not published afterwards"
    )
    if word == "TRUNCATE":
        return problem, "use DELETE FROM, which belongs to the transaction"
    return problem, "write it in commit_before_read, or in a step of a maintenance job"


def find_script_mistake(
    statements: Sequence[str], backend: str | None
) -> tuple[str, str | None] | None:
    """Return problem and fix of statements that would end their common transaction, or None."""
    for sql in statements:
        word = find_ending_statement(sql, backend) if backend else None
        if word is not None and (word in _ENDS or len(statements) > 1):
            problem = f"{word} ends the transaction of these statements on {backend}"
            return problem, "transaction: false executes each statement by itself"
    return None


def find_backend(connection: ConnectionType | None) -> str | None:
    """Return SQLAlchemy's name of a connection's backend, or None if it cannot be resolved here."""
    url = get_url(connection)
    if url is None:
        return None
    try:
        return build_database_url(url, Path()).get_backend_name()
    except UsageError:
        return None
