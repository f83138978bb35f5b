"""Selection of tables by name, pattern, tag and job, with what is upstream and downstream of them.

Source: dbt, node selection: `+ods.orders`, `ods.orders+`, `2+ods.orders`, `ods.*`, `tag:finance`,
`A B` for the union and `A,B` for the intersection. Source: SQLMesh and dbt, selection by state.
"""

import re
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase

from logdriven_dagster.config.models.jobs import MaintenanceJob
from logdriven_dagster.config.project import Project, suggest_nearest
from logdriven_dagster.errors import UsageError

_WITH_NEIGHBOURS = re.compile(r"(?:(?P<up>\d*)\+)?(?P<name>[^+]+?)(?:\+(?P<down>\d*))?")
STATES = ("changed", "stale")
"""Words that select tables by their state in the registry and the run log."""
_PATTERN = re.compile(r"[*?\[]")


def select_tables(
    project: Project, names: Collection[str] = (), exclude: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the selected tables in running order; all tables without `names`.

    `exclude` removes tables, by the same syntax:

    - `ods.orders`, a pattern such as `ods.*`, or a standard job (`job:nightly`, or its name alone)
    - `tag:finance` or `tag:pii=yes`, the tables with a tag
    - `changed`, the tables whose files differ from the registered version; `stale`, those with
      windows by older versions. Either may be none
    - `+NAME` with all upstreams, `NAME+` with all downstreams, `2+NAME+1` with that many levels
    - `A,B` only the tables that both parts select

    Raises UsageError for a part that matches nothing, for a maintenance job, which has no tables,
    and if no table is left.
    """
    found = _unite(project, names) if names else set(project.tables)
    found -= _unite(project, exclude)
    selected = tuple(name for name in project.tables if name in found)
    if not selected and (names or exclude):
        raise UsageError(f"no table is selected by {_describe(names, exclude)}")
    return selected


def _describe(names: Collection[str], exclude: Collection[str]) -> str:
    return " ".join([*names, *(f"--exclude {each}" for each in exclude)])


def _unite(project: Project, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        found |= {name} if name in project.tables else _select_one(project, name)
    return found


def _select_one(project: Project, text: str) -> set[str]:
    parts = text.split(",")
    return set.intersection(*(_select_part(project, part.strip()) for part in parts))


def _select_part(project: Project, text: str) -> set[str]:
    match = _WITH_NEIGHBOURS.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a selection of tables; use +NAME, NAME+ or 2+NAME+1")
    found = _match(project, match["name"])
    upstream, downstream = set(found), set(found)
    if match["up"] is not None:
        upstream = _follow(found, _list_upstreams(project), match["up"])
    if match["down"] is not None:
        downstream = _follow(found, _list_downstreams(project), match["down"])
    return upstream | downstream


def _match(project: Project, name: str) -> set[str]:
    """Return the tables of a name, a pattern, a tag or a job. Raises UsageError if none matches."""
    kind, _, rest = name.partition(":")
    if name in project.tables:
        return {name}
    if name in STATES and name not in project.jobs:
        return _find_tables_in_state(project, name)
    if name in project.jobs or kind == "job":
        return _list_tables_of_job(project, name if name in project.jobs else rest)
    if kind == "tag":
        return _match_tag(project, rest)
    if _PATTERN.search(name):
        if found := {table for table in project.tables if fnmatchcase(table, name)}:
            return found
        raise UsageError(f"no table of project {project.name} matches {name!r}")
    near = suggest_nearest(name, [*project.tables, *project.jobs])
    raise UsageError(f"unknown table or job {name!r} in project {project.name}{near}")


def _find_tables_in_state(project: Project, state: str) -> set[str]:
    find = project.states.get(state)
    if find is None:
        fix = "name the tables instead"
        raise UsageError(f"{state!r} selects tables by the run log, which is not read here; {fix}")
    return set(find()) & project.tables.keys()


def _match_tag(project: Project, text: str) -> set[str]:
    key, separator, value = text.partition("=")
    tagged = {name: table.tags for name, table in project.tables.items()}
    found = {
        name
        for name, tags in tagged.items()
        if key in tags and (not separator or tags[key] == value)
    }
    if not found:
        known = sorted({f"{tag}={of}" for tags in tagged.values() for tag, of in tags.items()})
        near = suggest_nearest(text, [*known, *(tag.partition("=")[0] for tag in known)])
        raise UsageError(f"no table of project {project.name} has the tag {text!r}{near}")
    return found


def _list_tables_of_job(project: Project, name: str) -> set[str]:
    job = project.job(name)
    if isinstance(job, MaintenanceJob):
        fix = f"run it with `logdriven job run {name}`"
        raise UsageError(f"{name} is a maintenance job, which has steps and no tables; {fix}")
    return set(job.tables)


def _follow(found: set[str], neighbours: Callable[[str], Iterable[str]], levels: str) -> set[str]:
    """Return tables with their neighbours of one side, up to a number of levels if there is one."""
    reached, edge, left = set(found), set(found), int(levels) if levels else None
    while edge and left != 0:
        edge = {other for name in edge for other in neighbours(name)} - reached
        reached |= edge
        left = None if left is None else left - 1
    return reached


def _list_upstreams(project: Project) -> Callable[[str], list[str]]:
    def neighbours(name: str) -> list[str]:
        named = (dependency.table for dependency in project.tables[name].table_dependencies)
        return [table for table in named if table in project.tables]

    return neighbours


def _list_downstreams(project: Project) -> Callable[[str], list[str]]:
    upstreams, found = _list_upstreams(project), {name: list[str]() for name in project.tables}
    for name in project.tables:
        for upstream in upstreams(name):
            found[upstream].append(name)
    return found.__getitem__
