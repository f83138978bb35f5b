"""Registry of incremental types by name."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from logdriven_dagster.config.models.incremental.batches import Files, Upstreams
from logdriven_dagster.config.models.incremental.keys import Keys
from logdriven_dagster.config.models.incremental.offsets import Offsets
from logdriven_dagster.config.models.incremental.times import Snapshots, TimeWindows
from logdriven_dagster.config.models.incremental.types import DeclaredTable, IncrementalType

_TIME = TimeWindows()
_ALL = (_TIME, Snapshots(), Keys(), Offsets(), Files(), Upstreams())
_BY_NAME = {each.name: each for each in _ALL}

if TYPE_CHECKING:
    IncrementalName: TypeAlias = str
else:
    IncrementalName = Literal[tuple(_BY_NAME)]


def get_incremental_type(name: object) -> IncrementalType:
    """Return the incremental type named in a file or log row; time windows for an unknown name."""
    return _BY_NAME.get(str(name), _TIME)


def mistakes(table: DeclaredTable) -> Iterator[str]:
    """Yield each setting in a table's file that contradicts its incremental type."""
    own = table.incremental
    for name in sorted(table.model_fields_set - own.options):
        others = [each.name for each in _ALL if name in each.options]
        if others:
            yield f"{name}: only for incremental_type {' and '.join(others)}"
    if not own.takes_upstream_batches:
        for dependency in table.table_dependencies:
            if dependency.cut_pattern is not None or dependency.step is not None:
                yield "depends_on: cut_pattern and step are only for incremental_type upstream"
    yield from own.mistakes(table)
