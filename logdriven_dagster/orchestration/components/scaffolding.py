"""The files that `dg scaffold defs` writes."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from click import ClickException
from dagster import Scaffolder, ScaffoldRequest
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field

from logdriven_dagster.config.project import PROJECT_FILE
from logdriven_dagster.config.scaffolding.new_project import scaffold
from logdriven_dagster.config.yaml.components import TABLE_COMPONENT
from logdriven_dagster.errors import UsageError

_TABLE = (
    "type: {component}\n\nattributes:\n  table: ods.{name}\n  description: One row "
    "per …\n  default_start: {start}\n  period: 1 day\n  steps:\n    - step: "
    "load\n      sql: SELECT 1 AS example\n      target: {{type: iceberg}}\n"
)


class ProjectParams(BaseModel):
    """Options of `dg scaffold defs` for a project."""

    project: str | None = Field(
        None,
        description="the folder of an existing project, relative to the working directory of dg",
    )


class ProjectScaffolder(Scaffolder[ProjectParams]):
    """Writes the project of `logdriven init`, or refers to an existing one."""

    @classmethod
    def get_scaffold_params(cls) -> type[ProjectParams]:
        """Return the options that `dg` offers."""
        return ProjectParams

    def scaffold(self, request: ScaffoldRequest[ProjectParams]) -> None:
        """Write `defs.yaml` and next to it a small project, unless an existing one is given."""
        with _convert_usage_errors(request):
            _refuse_appending(request)
            if request.params.project is None:
                scaffold(request.target_path, datetime.now(timezone.utc).date())
                scaffold_component(request, {"project": "."})
                return
            folder = Path(request.params.project).resolve()
            if not (folder / PROJECT_FILE).is_file():
                raise UsageError(f"{folder} is not a project: it has no {PROJECT_FILE}")
            relative = Path(os.path.relpath(folder, request.target_path.resolve()))
            scaffold_component(request, {"project": relative.as_posix()})


class TableScaffolder(Scaffolder):
    """Writes a working table into an existing project, as a template to be changed."""

    def scaffold(self, request: ScaffoldRequest) -> None:
        """Write `defs.yaml`; refuse a folder in which no project would find it."""
        with _convert_usage_errors(request):
            _refuse_appending(request)
            project_of(request.target_path)
        name = re.sub(r"\W+", "_", request.target_path.name, flags=re.ASCII)
        start = datetime.now(timezone.utc).date() - timedelta(days=3)
        text = _TABLE.format(component=TABLE_COMPONENT, name=name, start=start)
        (request.target_path / "defs.yaml").write_text(text, encoding="utf-8")


@contextmanager
def _convert_usage_errors(request: ScaffoldRequest[Any]) -> Iterator[None]:
    """Turn a refusal into an error that `dg` prints without a traceback; it leaves no folder."""
    try:
        yield
    except UsageError as error:
        if request.target_path.is_dir() and not any(request.target_path.iterdir()):
            request.target_path.rmdir()
        raise ClickException(str(error)) from None


def _refuse_appending(request: ScaffoldRequest[Any]) -> None:
    if request.append or request.scaffold_format != "yaml":
        raise UsageError("a project or a table needs its own defs.yaml; give a new folder")


def project_of(folder: Path) -> Path:
    """Return the project folder of a table's component. Raises UsageError without one."""
    for parent in folder.resolve().parents:
        if (parent / PROJECT_FILE).is_file() and folder.resolve().is_relative_to(parent / "tables"):
            return parent
    problem = f"{folder}: must be a folder below `tables/` of a project"
    raise UsageError(f"{problem}, such as shop/tables/{folder.name}")
