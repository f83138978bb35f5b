"""Proof, within the publishing transaction, that the target holds the staged rows.

Databases convert values that do not fit, truncate text, round times, and have triggers, rules and
views that change or hide rows. Instead of a list of such cases, the rows are read back from the
target and compared with the staged ones as multisets, by a fingerprint that the database computes.
Unless a trigger, rule or view may change rows, columns declared as in the staging table are not
compared, and neither are texts that are short enough for their column.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.databases.declarations import MARIADB
from logdriven_dagster.engine.targets.jdbc.moves import Move, fill_template
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, FromClause, Select

_HASHES = {
    "postgresql": "hash_record_extended(ROW({values}), 0)",
    **dict.fromkeys(MARIADB, "CRC32(CONCAT_WS('|', {values}))"),
}
_LONGEST = 60


class Proof:
    """A comparison of staged rows with the corresponding rows of the target.

    `staged` and `published` are queries without columns, from the aliases `source` and `found`.
    """

    def __init__(
        self,
        conn: "Connection",
        moves: Sequence[Move],
        staged: "tuple[FromClause, Select[Any]]",
        published: "tuple[FromClause, Select[Any]]",
    ) -> None:
        self._conn = conn
        self._moves = [move for move in moves if not move.is_proven]
        self._source, self._staged = staged
        self._found, self._published = published

    def require(self, table: str) -> None:
        """Raise TerminalStepError with a column and a value unless both sides have equal rows."""
        from sqlalchemy import text

        self._moves = self._changeable()
        if not self._moves:
            return
        if self._conn.dialect.name == "postgresql":
            # Run triggers now that are deferred to the end of the transaction.
            self._conn.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        if self._are_equal():
            return
        for move in self._moves:
            if (values := self._differences([move])) is not None:
                raise TerminalStepError(_describe_change(table, move, values))
        raise TerminalStepError(
            f"{table}: the target does not contain the rows that were written to it; a "
            "trigger, a rule, a policy or the condition of a view changes or hides "
            "them. Nothing was written"
        )

    def _changeable(self) -> list[Move]:
        """Return the columns in which the database may have changed a staged value."""
        from sqlalchemy import literal, literal_column, or_, select

        staged = self._source.c
        conditions: list[ColumnElement[Any]] = [
            literal_column(
                f"NOT ({fill_template(self._conn, move.unchanged, staged[move.staged.name])})"
            )
            for move in self._moves
            if move.unchanged
        ]
        if not conditions:
            return self._moves
        odd = select(literal(1)).select_from(self._source).where(or_(*conditions)).limit(1)
        if self._conn.execute(odd).first() is not None:
            return self._moves
        return [move for move in self._moves if move.unchanged is None]

    def _are_equal(self) -> bool:
        template = _hash_of(self._conn)
        if template is None:
            return self._differences(self._moves) is None
        sent = self._fingerprint(template, self._source, self._staged, "sent")
        found = self._fingerprint(template, self._found, self._published, "found")
        return sent == found

    def _fingerprint(
        self, template: str, table: "FromClause", rows: "Select[Any]", side: str
    ) -> tuple[Any, ...]:
        from sqlalchemy import func, literal_column

        values = [self._text(move, table, side) for move in self._moves]
        if self._conn.dialect.name in MARIADB:
            values = [f"QUOTE({value})" for value in values]
        row: ColumnElement[Any] = literal_column(template.replace("{values}", ", ".join(values)))
        query = rows.with_only_columns(func.count(), func.sum(row), maintain_column_froms=True)
        return tuple(self._conn.execute(query).one())

    def _differences(self, moves: Sequence[Move]) -> "tuple[Any, Any] | None":
        from sqlalchemy import func, literal, literal_column, select, union_all

        sides = []
        for table, rows, side, weight in (
            (self._source, self._staged, "sent", 1),
            (self._found, self._published, "found", -1),
        ):
            values: list[ColumnElement[Any]] = [
                literal_column(self._text(move, table, side)).label(f"v{n}")
                for n, move in enumerate(moves)
            ]
            weighted = literal(weight).label("weight")
            sides.append(rows.with_only_columns(*values, weighted, maintain_column_froms=True))
        both = union_all(*sides).subquery()
        columns = [both.c[f"v{n}"] for n in range(len(moves))]
        number = func.sum(both.c.weight)
        differing = select(*columns, number).group_by(*columns).having(number != 0)
        least = self._conn.execute(differing.order_by(number).limit(1)).first()
        most = self._conn.execute(differing.order_by(number.desc()).limit(1)).first()
        if least is None or most is None:
            return None
        return (
            most[0] if most[-1] > 0 else _ABSENT,
            least[0] if least[-1] < 0 else _ABSENT,
        )

    def _text(self, move: Move, table: "FromClause", side: str) -> str:
        column = table.c[move.staged.name if side == "sent" else move.target.name]
        return fill_template(self._conn, move.sent if side == "sent" else move.found, column)


_ABSENT = object()


def _hash_of(conn: "Connection") -> str | None:
    version = conn.dialect.server_version_info or ()
    if conn.dialect.name == "postgresql" and version < (14,):
        return None
    return _HASHES.get(conn.dialect.name)


def _describe_change(table: str, move: Move, values: "tuple[Any, Any]") -> str:
    sent, found = values
    is_held = "" if found is _ABSENT else f"; it contains {_format_value(found)} instead"
    was = "a row that was not written" if sent is _ABSENT else f"{_format_value(sent)}"
    return (
        f"{table}: column {move.target.name} ({move.declared}) does not store {was}{is_held}. "
        "Nothing was written; convert the value in the step's SQL, or change the "
        "column"
    )


def _format_value(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return "NULL" if value is None else repr(text[:_LONGEST])
