"""Which files hold Sharp ETL's workflows, and that each name stands for one of them."""

import re
from collections.abc import Sequence
from pathlib import Path

from logdriven_dagster.errors import ConfigError, InvalidProjectError, UsageError
from logdriven_dagster.importers.drafts import Translation
from logdriven_dagster.importers.sharpetl.parser import Workflow, parse_workflow


def read_workflows(paths: Sequence[Path], translation: Translation) -> list[Workflow]:
    """All workflows; InvalidProjectError for malformed files and names that are given twice.

    Source: Sharp ETL, DuplicatedScript and WorkFlowSyntaxException.
    """
    found: dict[str, Workflow] = {}
    errors: list[ConfigError] = []
    for path in _files(paths, translation):
        try:
            workflow = parse_workflow(path)
        except ConfigError as error:
            errors.append(error)
            continue
        if (first := found.setdefault(workflow.name, workflow)) is not workflow:
            problem = f"workflow {workflow.name} is defined twice, first in {first.path}"
            errors.append(ConfigError(path, workflow.line, "workflow", problem))
    if errors:
        raise InvalidProjectError(errors)
    return list(found.values())


def _files(paths: Sequence[Path], translation: Translation) -> list[Path]:
    """Files as they are named, and the workflows in folders; other SQL there is listed."""
    files: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no {path}")
        for file in sorted(path.rglob("*.sql")) if path.is_dir() else [path]:
            if path.is_dir() and not _is_workflow(file.read_text("utf-8", errors="replace")):
                translation.leave(str(file), "the file", "it has no `-- workflow=`")
            else:
                files[file] = None
    return list(files)


def _is_workflow(text: str) -> bool:
    """Whether a file is meant to be a workflow, well formed or not."""
    return re.search(r"^-- *workflow\b", text, re.MULTILINE) is not None
