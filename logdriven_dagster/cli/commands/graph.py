"""`graph`: what waits for what."""

from typing import Annotated

import typer

from logdriven_dagster.cli.options import JsonOption, ProjectOption, open_in_force


def graph(
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="With its relations; all tables by default.")
    ] = None,
    *,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what waits for what as Mermaid text; conditions and delays are nodes of their own."""
    from logdriven_dagster.cli.shown.rendering import print_json, print_line
    from logdriven_dagster.config.derived.graph import graph_of, mermaid
    from logdriven_dagster.config.derived.relations import project_of_job

    loaded = project_of_job(open_in_force(project).project, job)
    found = graph_of(loaded.tables, loaded.select([job] if job else []))
    if not as_json:
        print_line(mermaid(found))
        return
    nodes = [{"id": n.id, "kind": n.kind.value, "label": n.label} for n in found.nodes]
    edges = [{"from": e.start, "to": e.end, "waits": e.waits} for e in found.edges]
    print_json({"nodes": nodes, "edges": edges})
