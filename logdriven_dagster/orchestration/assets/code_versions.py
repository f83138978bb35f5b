"""Code and data versions of windows, by which Dagster shows partitions as stale.

The code version of a table is the first version with the same effect as the one in force, so that a
cosmetic change makes no partition stale. The data version of a window is the attempt that wrote it.
The run log decides which windows are stale because an upstream window ran again, and reruns them;
the tags therefore name the inputs of a window without comparing them.
"""

from collections.abc import Mapping
from functools import cache

from dagster import DagsterInstance

from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.orchestration.dagster_internals import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
    read_data_version,
)
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions.effects import read_effect_versions


class VersionTags:
    """The tags of a code location's materializations with their versions."""

    def __init__(self, location: Location, instance: DagsterInstance, run_log: RunLog) -> None:
        self._location, self._run_log = location, run_log
        self._tables = {location.key(name) for name in location.project.tables}
        self._read_data_version = cache(lambda key: read_data_version(instance, key))
        self._read_effects = cache(self._query_effects)

    def build(self, table: str, version: int | None, job_id: int) -> dict[str, str]:
        """Return the tags of a window that an attempt made by a version of its table."""
        tags = {DATA_VERSION_TAG: str(job_id)}
        if table not in self._location.inputs:
            return tags
        tags[CODE_VERSION_TAG] = str(self._find_effect_version(table, version))
        for key in self._location.inputs[table]:
            # Windows of tables are partitions, whose versions Dagster reads by the event pointer.
            known = "" if key in self._tables else self._read_data_version(key)
            tags[get_input_data_version_tag(key)] = known
            tags[get_input_event_pointer_tag(key)] = NULL_EVENT_POINTER
        return tags

    def _find_effect_version(self, table: str, version: int | None) -> int:
        project = self._location.project
        if version is None or version == project.version(Kind.TABLE, table):
            return project.effect_version(table)
        return self._read_effects(table).get(version, version)

    def _query_effects(self, table: str) -> Mapping[int, int]:
        code = build_code(self._location.project.name, Kind.TABLE, table)
        found = self._run_log.ask(lambda conn: read_effect_versions(conn, [code]))
        return {version: of.effect_version for version, of in found.get(code, {}).items()}
