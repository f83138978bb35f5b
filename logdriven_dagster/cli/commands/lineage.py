"""`lineage` and `properties`: dependencies and columns, and the properties of a table."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logdriven_dagster.cli.options import JsonOption, ProjectOption, open_project

if TYPE_CHECKING:
    from logdriven_dagster.config.derived.neighbours import Neighbour
    from logdriven_dagster.config.project import Project
    from logdriven_dagster.model.lineage import QueryLineage
    from logdriven_dagster.runlog.observed.lineage_answers import AttemptLineage, BatchLineage, Link


def lineage(
    name: Annotated[
        str | None, typer.Argument(help="A table, a job or a column such as ods.flights.origin.")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Include indirect neighbors of a table or job.")
    ] = False,
    job_id: Annotated[
        int | None, typer.Option("--job-id", help="Show the queries of this attempt.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Show the queries that produced this batch.")
    ] = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show upstream and downstream tables and jobs, or the lineage of columns in queries."""
    from logdriven_dagster.cli.shown.rendering import print_json

    if sum(given is not None for given in (name, job_id, batch)) != 1:
        raise typer.BadParameter("give exactly one of NAME, --job-id and --batch")
    loaded = open_project(project)
    if name is not None and (name in loaded.tables or name in loaded.jobs):
        document = _find_neighbours(loaded, name, everything=everything)
    elif name is not None:
        document = _convert_column(loaded, name)
    else:
        document = _read_queries(loaded, job_id, batch)
    if as_json:
        print_json(document)
    else:
        _print(document)


def properties(
    table: Annotated[str, typer.Argument(help="The table.")],
    group: Annotated[
        str | None, typer.Argument(help="The group of properties; default: all groups.")
    ] = None,
    *,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the properties of a table by group, including those of the project."""
    from logdriven_dagster.cli.shown import rendering
    from logdriven_dagster.errors import UsageError

    loaded = open_project(project)
    found = loaded.get_unresolved_properties(loaded.table(table))
    if group is not None and group not in found:
        groups = ", ".join(found) or "none"
        raise UsageError(f"{table} has no properties of group {group!r}; its groups are {groups}")
    shown = found if group is None else {group: found[group]}
    if as_json:
        rendering.print_json(shown)
        return
    grid = rendering.make_table("group", "key", "value")
    for name, keys in shown.items():
        for key, value in keys.items():
            grid.add_row(name, key, rendering.format_plain(value))
    if shown:
        rendering.make_console().print(grid)
    else:
        rendering.print_line(f"{table} has no properties.")


def _find_neighbours(project: "Project", name: str, *, everything: bool) -> dict[str, Any]:
    from logdriven_dagster.config.derived.neighbours import find_jobs, find_neighbours

    found = find_neighbours(project, name, "all" if everything else "direct")
    own = find_jobs(project, [name]) if name in project.tables else []
    return {
        "name": name,
        "kind": "table" if name in project.tables else "job",
        "jobs": own,
        "upstream": [_convert_neighbour(item) for item in found if item.direction == "U"],
        "downstream": [_convert_neighbour(item) for item in found if item.direction == "D"],
    }


def _convert_neighbour(item: "Neighbour") -> dict[str, Any]:
    return {
        "kind": item.kind,
        "name": item.name,
        "distance": item.distance,
        "because": list(item.because),
        "managed": item.managed,
    }


def _convert_column(project: "Project", name: str) -> dict[str, Any]:
    from logdriven_dagster.config.derived.selection import select_tables
    from logdriven_dagster.errors import UsageError
    from logdriven_dagster.execution.definitions.homes import open_run_log
    from logdriven_dagster.model.lineage import ColumnRef, Container, NodeType
    from logdriven_dagster.runlog.observed.lineage_answers import find_by_column

    held, _, column = name.rpartition(".")
    kind = NodeType.TEMP if _is_view(project, held) else NodeType.TABLE
    asked = ColumnRef(Container(held, kind), column)
    log = open_run_log(project)
    try:
        links = log.ask(lambda conn: find_by_column(conn, asked))
    except UsageError:
        if held not in project.tables and not {*":/#"} & {*name}:
            select_tables(project, (name,))  # suggests the table or job
        raise
    return {
        "column": name,
        "upstream": [_link(item) for item in links if item.direction == "U"],
        "downstream": [_link(item) for item in links if item.direction == "D"],
    }


def _is_view(project: "Project", held: str) -> bool:
    """Return True if `table#step` is a step that writes nothing."""
    table, _, name = held.partition("#")
    steps = project.tables[table].steps if table in project.tables else ()
    return any(step.step == name and step.target is None for step in steps)


def _link(item: "Link") -> dict[str, Any]:
    return {
        "distance": item.distance,
        "source": str(item.source),
        "target": str(item.target),
        "table": item.table,
        "step": item.step_id,
        "query_id": item.query_id,
    }


def _read_queries(project: "Project", job_id: int | None, batch: int | None) -> dict[str, Any]:
    from logdriven_dagster.execution.definitions.homes import open_run_log
    from logdriven_dagster.runlog.observed.lineage_answers import find_by_attempt, find_by_batch

    log = open_run_log(project)
    if job_id is not None:
        return _convert_attempt(log.ask(lambda conn: find_by_attempt(conn, job_id)))
    assert batch is not None
    return _batch(log.ask(lambda conn: find_by_batch(conn, batch)))


def _convert_attempt(item: "AttemptLineage") -> dict[str, Any]:
    queries = [_query(query) for query in item.queries]
    return {"job_id": item.job_id, "table": item.table, "queries": queries}


def _batch(item: "BatchLineage") -> dict[str, Any]:
    sources = [dict(zip(("table", "batch_id", "job_id"), s, strict=True)) for s in item.sources]
    attempts = [_convert_attempt(attempt) for attempt in item.attempts]
    return {"batch_id": item.batch_id, "sources": sources, "attempts": attempts}


def _query(query: "QueryLineage") -> dict[str, Any]:
    return {
        "step": query.step_id,
        "type": query.type,
        "query": query.text,
        "result": query.result.name,
        "absent": query.absent,
        "columns": [
            {
                "column": made.column,
                "from": [str(origin) for origin in made.origins],
                "functions": list(made.functions),
                "temps": list(made.temps),
            }
            for made in query.columns
        ],
    }


def _print(document: Mapping[str, Any]) -> None:
    from logdriven_dagster.cli.shown.rendering import print_line

    if "queries" in document:
        _print_attempt(document)
    elif "attempts" in document:
        for source in document["sources"]:
            made = f"batch {source['batch_id']} of {source['table']}, job {source['job_id'] or '–'}"
            print_line(f"sources: {made}")
        for attempt in document["attempts"]:
            _print_attempt(attempt)
    else:
        for job in document.get("jobs", ()):
            print_line(f"{document['name']} runs in job {job}.")
        for side in ("upstream", "downstream"):
            _print_side(side, document[side])


def _print_side(side: str, rows: Iterable[Mapping[str, Any]]) -> None:
    from logdriven_dagster.cli.shown import rendering

    rows = list(rows)
    if not rows:
        rendering.print_line(f"Nothing {side}.")
        return
    rendering.print_line(f"{side.capitalize()}:")
    if "source" in rows[0]:
        grid = rendering.make_table("#distance", "column", "source", "by")
        for row in rows:
            by = f"{row['table']}.{row['step']}"
            grid.add_row(str(row["distance"]), row["target"], row["source"], by)
    else:
        grid = rendering.make_table("#distance", "kind", "name", "reason")
        for row in rows:
            because = [*row["because"], *([] if row["managed"] else ["not managed"])]
            grid.add_row(str(row["distance"]), row["kind"], row["name"], ", ".join(because))
    rendering.make_console().print(grid)


def _print_attempt(attempt: Mapping[str, Any]) -> None:
    from logdriven_dagster.cli.shown import rendering

    rendering.print_line(f"Job {attempt['job_id']} of {attempt['table']}:")
    if not attempt["queries"]:
        rendering.print_line("  no lineage was recorded")
    for query in attempt["queries"]:
        rendering.print_line(f"step {query['step']} ({query['type']}) makes {query['result']}:")
        for line in query["query"].strip().splitlines():
            rendering.print_line(f"    {line}")
        grid = rendering.make_table("column", "source", "via")
        for made in query["columns"]:
            through = ", ".join([*(f"{name}()" for name in made["functions"]), *made["temps"]])
            grid.add_row(made["column"], ", ".join(made["from"]) or "–", through)
        rendering.make_console().print(grid)
        if query["absent"]:
            rendering.print_line(f"  unknown lineage: {query['absent']}")
