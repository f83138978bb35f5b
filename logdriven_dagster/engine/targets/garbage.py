"""Garbage that neither readers nor running attempts need, found without starting Spark.

Killed attempts leave staged rows, publications leave the files that they replaced, and commits
leave metadata. A reader that began before a table's last fifty commits may still hold such a file.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import partial

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.spark.classic.settings_files import (
    find_leftover_settings,
    remove_settings,
)
from logdriven_dagster.engine.storage.garbage import Garbage, InUse, Search
from logdriven_dagster.engine.storage.staging import staging_of
from logdriven_dagster.engine.targets.contents import contents_of
from logdriven_dagster.engine.targets.rejected import build_rejected_target


def find_garbage(project: Project, in_use: InUse, older_than: timedelta) -> Iterator[Garbage]:
    """Find the garbage of all configured targets; files younger than `older_than` stay.

    Spark settings that a killed process left hold secrets, so they are included at any age.
    """
    search = Search(project, in_use, datetime.now(timezone.utc) - older_than)
    for name, config in project.tables.items():
        for step in config.steps:
            if step.target is not None:
                yield from contents_of(step.target).leftovers(search, name, step.target)
            if (apart := build_rejected_target(name, step)) is not None:
                yield from contents_of(apart[1]).leftovers(search, *apart)
        for folder in search.idle(staging_of(project, name)):
            yield from search.old(name, "rows", folder)
    for left in find_leftover_settings():
        location, remove = str(left), partial(remove_settings, left)
        yield Garbage("", "settings", location, None, None, remove)
