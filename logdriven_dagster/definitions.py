"""The code location of a project: `dagster dev -m logdriven_dagster.definitions`.

`LOGDRIVEN_PROJECT` names the project folder; without it, it is the current folder.
"""

import os
import warnings

from dagster import BetaWarning

from logdriven_dagster.orchestration.code_location import build_definitions

# Dagster warns of its own defaults for sensors, which nobody here could change.
warnings.simplefilter("ignore", BetaWarning)

defs = build_definitions(os.environ.get("LOGDRIVEN_PROJECT") or ".")
