"""The code location: `dagster dev -m logdriven_dagster.definitions`.

`LOGDRIVEN_PROJECT` names the project folder; without it, the current folder is taken if it is one,
else the example.
"""

import os
import warnings
from pathlib import Path

from dagster import BetaWarning

from logdriven_dagster.config import load_project
from logdriven_dagster.config.project import PROJECT_FILE
from logdriven_dagster.orchestration.code_location import build_definitions

_EXAMPLE = Path(__file__).parent / "examples" / "nycflights"


def _project_folder() -> Path:
    if folder := os.environ.get("LOGDRIVEN_PROJECT"):
        return Path(folder)
    return Path.cwd() if Path(PROJECT_FILE).is_file() else _EXAMPLE


# Dagster warns of its own defaults for sensors, which nobody here could change.
warnings.simplefilter("ignore", BetaWarning)

defs = build_definitions(load_project(_project_folder()))
