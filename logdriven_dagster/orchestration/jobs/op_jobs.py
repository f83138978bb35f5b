"""Parts that the jobs of one op share."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from dagster import GraphDefinition, JobDefinition, OpDefinition, in_process_executor

from logdriven_dagster.config.project import Project
from logdriven_dagster.orchestration.events.reporting import Reporter
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.orchestration.run_tags import PROJECT_TAG


def op_job(
    location: Location,
    plain_name: str,
    description: str,
    of: OpDefinition,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> JobDefinition:
    """Return a job of one op, which runs in this process.

    `plain_name` is its name without the prefix of the code location.
    """
    name = location.name(plain_name)
    # Dagster requires different names of graphs and ops; users type those of the job and the op.
    graph = GraphDefinition(name=f"{name}_graph", node_defs=[of], description=description)
    return graph.to_job(
        name=name,
        description=description,
        executor_def=in_process_executor,
        tags={PROJECT_TAG: location.project.name, **tags},
    )


def online_tables(project: Project, names: Collection[str]) -> list[str]:
    """Return those of the tables that schedules and sensors may start."""
    return [name for name in names if project.tables[name].release_state == "online"]


def summary(reporter: Reporter) -> str:
    """Summarize the results of a run's windows in one line."""
    parts = {
        "succeeded": len(reporter.succeeded),
        "failed": len(reporter.failed),
        "lost": len(reporter.lost),
        "refused": len(reporter.refused),
        "skipped": reporter.skipped,
    }
    counted = ", ".join(f"{number} {name}" for name, number in parts.items() if number)
    return f"windows: {counted or 'none were ready'}"
