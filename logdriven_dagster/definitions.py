"""The code location of a project: `dagster dev -m logdriven_dagster.definitions`.

`LOGDRIVEN_PROJECT` names the project folder; it defaults to the current folder.
"""

import os
import warnings

from dagster import BetaWarning

from logdriven_dagster.orchestration.code_location import build_definitions

# Dagster warns about its own defaults for sensors, which this package cannot change.
warnings.simplefilter("ignore", BetaWarning)

defs = build_definitions(os.environ.get("LOGDRIVEN_PROJECT") or ".")
