"""Names of engines: Spark and those of installed packages.

A package registers an `EngineType` as an entry point of the group `logdriven.engines`
(docs/engines.md). `config.checking.engines` loads it when a project needs it.
"""

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Literal, TypeAlias

from logdriven_dagster.entry_points import entry_points_of

GROUP = "logdriven.engines"
SPARK, AUTO = "spark", "auto"
_SPARK = EntryPoint(SPARK, "logdriven_dagster.engine.spark.session:Spark", GROUP)


def list_engines() -> dict[str, EntryPoint]:
    """Return the entry points of engines by name, Spark first."""
    found = {SPARK: _SPARK}
    for point in entry_points_of(GROUP):
        if point.name != AUTO:
            found.setdefault(point.name, point)
    return found


_NAMES = (*list_engines(), AUTO)

if TYPE_CHECKING:
    EngineField: TypeAlias = str
else:
    EngineField = Literal[_NAMES]
