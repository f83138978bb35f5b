"""Upstream and downstream neighbours of a table or job. Source: BDRE, process dependencies."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.config.models.dependencies import is_asset
from logdriven_dagster.config.models.jobs import StandardJob
from logdriven_dagster.config.project import Project

Direction = Literal["U", "D"]
"""Upstream and downstream. Source: BDRE, row types of `GetProcessDependency`."""
Reach = Literal["direct", "all"]

_Edges: TypeAlias = dict[str, dict[str, list[str]]]
"""Neighbours of each table, with reasons: `depends_on`, or the job with the relation."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A table, asset or job that another one waits for, or that waits for it."""

    direction: Direction
    kind: Literal["table", "asset", "job"]
    name: str
    distance: int
    """Number of dependencies between them; 1 for a direct neighbour."""
    because: tuple[str, ...]
    """Reasons: `depends_on`, jobs with such a relation, or the tables of a neighbouring job."""
    managed: bool = True
    """False for a table or asset outside this project."""


def find_neighbours(project: Project, name: str, reach: Reach) -> tuple[Neighbour, ...]:
    """Return the neighbours of a table, or of a job's tables: upstream first, nearest first.

    `reach` is `direct`, or `all` for indirect neighbours as well. A job is a neighbour if it runs a
    neighbouring table and none of the given ones. Raises UsageError for an unknown name and for a
    maintenance job, which has no tables.
    """
    asked = select_tables(project, (name,))
    upstream = _collect_edges(project)
    downstream: _Edges = {}
    for table, edges in upstream.items():
        for other, reasons in edges.items():
            downstream.setdefault(other, {})[table] = reasons
    return (
        *_find_neighbours(project, asked, upstream, "U", reach),
        *_find_neighbours(project, asked, downstream, "D", reach),
    )


def find_jobs(project: Project, tables: Collection[str]) -> list[str]:
    """Return the standard jobs that run one of the tables."""
    return [
        job.job
        for job in project.jobs.values()
        if isinstance(job, StandardJob) and not {*job.tables}.isdisjoint(tables)
    ]


def _collect_edges(project: Project) -> _Edges:
    edges: _Edges = {}
    for table in project.tables.values():
        for dependency in table.depends_on:
            edges.setdefault(table.table, {})[dependency.upstream] = ["depends_on"]
    for job in project.jobs.values():
        for relation in job.relations if isinstance(job, StandardJob) else ():
            for upstream in relation.upstream:
                reasons = edges.setdefault(relation.to, {}).setdefault(upstream, [])
                reasons += [job.job] if job.job not in reasons else []
    return edges


def _find_neighbours(
    project: Project, asked: Collection[str], edges: _Edges, direction: Direction, reach: Reach
) -> Iterator[Neighbour]:
    tables = list(_find_tables(project, asked, edges, direction, reach))
    yield from tables
    near: dict[str, list[Neighbour]] = {}
    for table in tables:
        for job in find_jobs(project, [table.name]):
            near.setdefault(job, []).append(table)
    for job in find_jobs(project, asked):
        near.pop(job, None)
    for job, run in sorted(near.items(), key=lambda item: (item[1][0].distance, item[0])):
        names = tuple(table.name for table in run)
        yield Neighbour(direction, "job", job, run[0].distance, names)


def _find_tables(
    project: Project, asked: Collection[str], edges: _Edges, direction: Direction, reach: Reach
) -> Iterator[Neighbour]:
    """Yield neighbours breadth-first, so that their distance is that of the shortest path."""
    seen, near, distance = set(asked), list(asked), 1
    while near and (distance == 1 or reach == "all"):
        reasons = _find_next(near, seen, edges)
        for name, why in sorted(reasons.items()):
            kind: Literal["asset", "table"] = "asset" if is_asset(name) else "table"
            managed = name in project.tables
            yield Neighbour(direction, kind, name, distance, tuple(why), managed)
        near, distance = list(reasons), distance + 1
        seen.update(near)


def _find_next(
    near: Collection[str], seen: Collection[str], edges: Mapping[str, Mapping[str, list[str]]]
) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for name in near:
        for other, why in edges.get(name, {}).items():
            if other not in seen:
                known = reasons.setdefault(other, [])
                known += [reason for reason in why if reason not in known]
    return reasons
