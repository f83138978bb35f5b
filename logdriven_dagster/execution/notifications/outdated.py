"""Notices of windows that are out of date, because their source files changed after they ran.

Recipients of failures receive them: one notice about all such windows of a table, and another one
after the next change. Notices follow from the log, so any run may send them.
"""

from collections.abc import Collection

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.notifications import Occasion
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.source_files.changes import OutdatedWindows
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.observed import notifications, source_changes
from logdriven_dagster.runlog.observed.notifications import Notice

_OCCASIONS: frozenset[Occasion] = frozenset(("failure", "always"))


def post_notices(run_log: RunLog, project: Project, names: Collection[str], owner: str) -> None:
    """Put notices about changes that no notice names yet into the outbox, for some tables."""
    tables = {name: project.tables[name] for name in names}
    recipients = {name: found for name in tables if (found := _recipients(project, tables[name]))}
    if not recipients:
        return
    newest = run_log.ask(lambda conn: source_changes.read_newest_changes(conn, recipients))

    def post(conn: Connection) -> None:
        outdated = _find_outdated(conn, [tables[name] for name in newest])
        notices = [
            Notice(recipient, "source", name, "outdated", newest[name])
            for name in outdated
            for recipient in recipients[name]
        ]
        notifications.post_new(conn, notices, owner)

    if newest:
        run_log.write(post)


def describe(conn: Connection, project: Project, name: str) -> str:
    """Return which windows of a table are out of date, and why, as one sentence."""
    table = project.tables.get(name)
    outdated = {} if table is None else _find_outdated(conn, [table])
    if name not in outdated:
        return "its windows have run again since"
    return redact(outdated[name].text.removeprefix(f"{name}: "))


def _recipients(project: Project, table: TableConfig) -> set[str]:
    if table.on_source_change == "ignore":
        return set()
    names = {name for rule in table.notify if _OCCASIONS & set(rule.on) for name in rule.to}
    return names & project.config.recipients.keys()


def _find_outdated(conn: Connection, tables: Collection[TableConfig]) -> dict[str, OutdatedWindows]:
    """Return the tables, of these, with windows that do not run again by themselves."""
    changed = source_changes.read_changed_windows(conn, tables)
    found = {}
    for table in tables:
        windows = changed[table.table].windows if table.table in changed else ()
        outdated = OutdatedWindows.build(table, TableLog(changed=windows)).left_by_runs()
        if outdated.windows:
            found[table.table] = outdated
    return found
