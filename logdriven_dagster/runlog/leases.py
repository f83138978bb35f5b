"""Leased rows: RUNNING, with an owner, a heartbeat, an expiry and a fencing token.

An attempt at a window is such a row of `job_log`, a run of a job one of `job_run`. The token guards
every write of the lease holder. A process that finds an expired lease ends the row and takes over.

Source: Kylin, distributed job lock: one lock for each segment, its owner readable, takeover when
the owner is gone. The token is our addition, since a lock alone cannot stop an owner that wakes up.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    case,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.runlog.sql.clock import (
    count_microseconds,
    match_past,
    utc_from_now,
    utc_now,
)
from logdriven_dagster.runlog.sql.projects import match_project

_RUNNING = Status.RUNNING.value


class Leased(Protocol):
    """The holder of a leased row: an attempt, or a run of a job. `str()` returns its name."""

    @property
    def row_id(self) -> int:
        """The primary key of the row that the lease belongs to."""

    @property
    def fencing_token(self) -> int:
        """The fencing token, greater than that of any earlier holder."""

    @property
    def lease(self) -> timedelta:
        """The time that the lease lasts without a heartbeat."""


@dataclass(frozen=True)
class LeasedRows:
    """The leased rows of one table of the log.

    Functions for holders accept several with the same lease duration, and are all or nothing.
    """

    log: Table
    key: ColumnElement[int]
    running: ColumnElement[bool]
    """Matches the leased rows, by an index."""
    renewed: Collection[str]
    """The columns that a heartbeat sets to the current time, in addition to the lease."""
    ended: Callable[[Status, str], Mapping[str, Any]]
    """Returns the values of a row that another process ends with a status and a reason."""
    close_steps: Callable[[Connection, int, Status, str], None]
    """Ends the steps of such a row with it."""

    @cached_property
    def _valid_condition(self) -> ColumnElement[bool]:
        """The condition that matches rows of some `_build_holding` while their leases are valid.

        The guard is the token, not the owner: one owner may hold a window twice. A row keeps its
        token for ever.
        """
        return and_(self._mine, self.log.c.status == _RUNNING)

    @cached_property
    def _mine(self) -> ColumnElement[bool]:
        return and_(
            self.key.in_(bindparam("holders", expanding=True)),
            self.log.c.fencing_token.in_(bindparam("tokens", expanding=True)),
        )

    @cached_property
    def _states_query(self) -> Select[tuple[int, str]]:
        """The query of the states of rows that some `_build_holding` has, or has had."""
        return select(self.key, self.log.c.status).where(self._mine)

    @cached_property
    def _setting(self) -> Callable[..., Update]:
        """A cached builder of the UPDATE of timestamps and a lease, which every window executes."""

        @cache
        def build(
            now: frozenset[str], lease: timedelta | None, *where: ColumnElement[bool]
        ) -> Update:
            instants = {name: utc_now() for name in sorted(now)}
            fresh = {} if lease is None else build_lease_columns(lease)
            return update(self.log).where(self._valid_condition, *where).values(**instants, **fresh)

        return build

    def renew(self, conn: Connection, holders: Sequence[Leased]) -> None:
        """Renew leases. Raises AttemptLostError if a row was ended or taken over.

        A lease that expired unnoticed is still valid as long as no process has taken it over.
        """
        self.write(conn, holders, {}, now=self.renewed, lease=holders[0].lease)

    def verify(self, conn: Connection, holders: Sequence[Leased]) -> None:
        """Verify the leases without a write. Raises AttemptLostError if one of them is lost."""
        self._refuse_lost(conn, holders, self._find_in_state(conn, holders, _RUNNING))

    def _find_in_state(self, conn: Connection, holders: Sequence[Leased], *states: str) -> set[int]:
        """Return the keys of the rows that are in one of these states, by their tokens."""
        rows = conn.execute(self._states_query, _build_holding(holders))
        return {key for key, status in rows if status in states}

    def write(
        self,
        conn: Connection,
        holders: Sequence[Leased],
        values: Mapping[str, Any],
        *,
        now: Collection[str] = (),
        lease: timedelta | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> bool:
        """Set the same values in all of the rows, or raise AttemptLostError.

        The columns in `now` are set to the current time; the leases are renewed if `lease` is
        given. Returns False if the leases are valid, but `where`, whose parameters are among the
        values, does not match all rows: the caller must then roll back.
        """
        written = self._setting(frozenset(now), lease, *(() if where is None else (where,)))
        if conn.execute(written, {**values, **_build_holding(holders)}).rowcount == len(holders):
            return True
        # The rows with valid leases have the status of this update by now.
        ours = self._find_in_state(conn, holders, _RUNNING, values.get("status", _RUNNING))
        self._refuse_lost(conn, holders, ours)
        if where is None:
            raise self.build_lost_error(conn, holders[0])
        return False

    def build_lost_error(self, conn: Connection, holder: Leased) -> AttemptLostError:
        """Return an error that states the fate of a row whose lease is lost."""
        status = conn.execute(select(self.log.c.status).where(self.key == holder.row_id)).scalar()
        ended = f"is {status} in the run log" if status else "is not in the run log any more"
        what = f"{holder} {ended}: another process ended it"
        return AttemptLostError(f"{what}; nothing more is published")

    def _refuse_lost(self, conn: Connection, holders: Sequence[Leased], held: set[int]) -> None:
        for holder in holders:
            if holder.row_id not in held:
                raise self.build_lost_error(conn, holder)

    def list_leased(self, conn: Connection, *conditions: ColumnElement[bool]) -> list[Row[Any]]:
        """Select the leased rows; `expired` marks the rows whose lease has expired."""
        query = select(self.log, is_expired(self.log)).where(
            match_project(self.log), self.running, *conditions
        )
        return list(conn.execute(query).all())

    def take_over(self, conn: Connection, row: Row[Any], by: Owner | str) -> bool:
        """End a row whose lease has expired; False if it was renewed or ended in the meantime.

        The staged results of an attempt stay for the next attempt at its window.
        """
        reason = f"taken over from {row.owner} by {by}: its lease ran out"
        return self.end(conn, row, Status.FAILURE, reason, match_expired(self.log))

    def bury_expired(self, conn: Connection, by: Owner | str) -> list[int]:
        """End every row whose lease has expired, and return the keys.

        This includes rows of tables and jobs that no longer run.
        """
        over = self.list_leased(conn, match_expired(self.log))
        return [row._mapping[self.key] for row in over if self.take_over(conn, row, by)]

    def bury(self, conn: Connection, row_id: int, owner: Owner) -> bool:
        """End the row of a process that is known to be dead; False if it had ended already."""
        mine = self.list_leased(conn, self.key == row_id, self.log.c.owner == str(owner))
        reason = f"taken over from {owner}: its process has ended"
        return any(self.end(conn, row, Status.FAILURE, reason) for row in mine)

    def end(
        self,
        conn: Connection,
        row: Row[Any],
        status: Status,
        reason: str,
        *conditions: ColumnElement[bool],
    ) -> bool:
        """End another process's row; False if it has ended, or was renewed, since it was read.

        `reason` is stored with the row or its steps. The row must also match `conditions`.
        """
        row_id = row._mapping[self.key]
        ended = update(self.log).where(
            self.key == row_id,
            self.log.c.status == _RUNNING,
            self.log.c.fencing_token == row.fencing_token,
            *conditions,
        )
        if conn.execute(ended.values(**self.ended(status, reason))).rowcount != 1:
            return False
        self.close_steps(conn, row_id, status, reason)
        return True


def _build_holding(holders: Sequence[Leased]) -> dict[str, list[int]]:
    """Return the rows and tokens of holders as parameters of their statements."""
    return {
        "holders": [holder.row_id for holder in holders],
        "tokens": [holder.fencing_token for holder in holders],
    }


@cache
def match_expired(log: Table) -> ColumnElement[bool]:
    """Match RUNNING rows whose lease has expired by the database's clock, or has no expiry.

    A heartbeat in the future shows that the clock was set back. A live holder renews its lease
    within seconds; a dead one would otherwise hold it until the clock has caught up.
    """
    return or_(
        log.c.lease_expires_at.is_(None),
        log.c.lease_expires_at < utc_now(),
        not_(match_past(log.c.heartbeat_at)),
    )


@cache
def is_expired(log: Table) -> ColumnElement[int]:
    """Return a column `expired` for rows of a log: 1 for a RUNNING row without a valid lease."""
    over = (log.c.status == _RUNNING) & match_expired(log)
    return case((over, 1), else_=0).label("expired")


def build_lease_columns(duration: timedelta) -> dict[str, ColumnElement[Any]]:
    """Return the columns of a lease that begins now, or is renewed now."""
    return {"heartbeat_at": utc_now(), "lease_expires_at": utc_from_now(duration)}


def make_token(now: datetime, *earlier: int | None) -> int:
    """Return a token greater than the earlier ones.

    The clock makes it grow even if a new run log is used with old targets.
    """
    return max(count_microseconds(now), *((token or 0) + 1 for token in earlier))
