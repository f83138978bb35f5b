"""Discovery of Sharp ETL's workflow files, and validation of unique names."""

import re
from collections.abc import Sequence
from pathlib import Path

from logdriven_dagster.errors import ConfigError, InvalidProjectError, UsageError
from logdriven_dagster.plugins.importers.drafts import Translation
from logdriven_dagster.plugins.importers.sharpetl.parser import Workflow, parse_workflow


def read_workflows(paths: Sequence[Path], translation: Translation) -> list[Workflow]:
    """Read all workflows. Raises InvalidProjectError for malformed files and duplicate names.

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
    """Return the named files and the workflows in named folders; records other SQL files there."""
    files: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist")
        for file in sorted(path.rglob("*.sql")) if path.is_dir() else [path]:
            if path.is_dir() and not _is_workflow(file.read_text("utf-8", errors="replace")):
                translation.leave(str(file), "the file", "it has no `-- workflow=`")
            else:
                files[file] = None
    return list(files)


def _is_workflow(text: str) -> bool:
    """Return True if a file is intended as a workflow, well-formed or not."""
    return re.search(r"^-- *workflow\b", text, re.MULTILINE) is not None
