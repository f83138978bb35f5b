"""The code location of a project: `dagster dev -m logdriven_dagster.definitions`.

`LOGDRIVEN_PROJECT` names the project folder; without it, it is the current folder.
"""

import logging
import os
import warnings
from pathlib import Path

from dagster import BetaWarning

from logdriven_dagster.config import Project, load_project
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.registering import register
from logdriven_dagster.orchestration.code_location import build_definitions


def _registered(folder: Path) -> Project:
    """The project, its files applied to the registry; as the files say if that is out of reach."""
    try:
        return register(folder, "code location").project
    except RunLogError as error:
        logging.getLogger(__name__).warning("definitions_not_registered: %s", error)
        return load_project(folder)


# Dagster warns of its own defaults for sensors, which nobody here could change.
warnings.simplefilter("ignore", BetaWarning)

defs = build_definitions(_registered(Path(os.environ.get("LOGDRIVEN_PROJECT") or ".")))
