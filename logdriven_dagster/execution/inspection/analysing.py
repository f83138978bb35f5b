"""Analysis of a project's queries by Spark's own parser and analyzer, with places in its files."""

from dataclasses import dataclass

from logdriven_dagster.config.loading import build_project
from logdriven_dagster.config.project_files import ProjectFiles
from logdriven_dagster.config.sql.query_mistakes import TextPlace
from logdriven_dagster.engine.window.analysis import Analysed, analyse
from logdriven_dagster.errors import ConfigError


@dataclass(frozen=True)
class Analysis:
    """The mistakes in a project's queries, and the queries that were not analyzed, with reasons."""

    mistakes: tuple[ConfigError, ...]
    not_analyzed: tuple[ConfigError, ...]


def analysis_of(sources: ProjectFiles) -> Analysis:
    """Analyze every query of a valid project; starts Spark, or joins it where it runs."""
    from logdriven_dagster.engine import spark_session

    project = build_project(sources)
    found = list(analyse(project, spark_session(project)))
    documents = {document.values["table"]: document for document in sources.tables}

    def error(item: Analysed) -> ConfigError:
        document, table = documents[item.table], project.tables[item.table]
        field, step = item.location[-1:], item.location[1:2]
        file = table.steps[int(step[0])].sql_file if field == ("sql_file",) else None
        path = document.path.parent / file if file else None
        return TextPlace(document, item.location, path).error(item.text)

    return Analysis(
        tuple(error(item) for item in found if item.is_mistake),
        tuple(error(item) for item in found if not item.is_mistake),
    )
