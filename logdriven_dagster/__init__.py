"""Log-driven ETL on Dagster and Spark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from logdriven_dagster._version import __version__

if TYPE_CHECKING:
    from logdriven_dagster.orchestration.assets.translator import LogdrivenTranslator
    from logdriven_dagster.orchestration.code_location import build_definitions
    from logdriven_dagster.orchestration.components.project import (
        LogdrivenProjectComponent,
        TableComponent,
    )

__all__ = [
    "LogdrivenProjectComponent",
    "LogdrivenTranslator",
    "TableComponent",
    "__version__",
    "build_definitions",
]

_HOMES = {
    "LogdrivenProjectComponent": "orchestration.components.project",
    "LogdrivenTranslator": "orchestration.assets.translator",
    "TableComponent": "orchestration.components.project",
    "build_definitions": "orchestration.code_location",
}


def __getattr__(name: str) -> Any:
    """Import the requested name lazily: the command line must start without Dagster."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Include the public names: `dg` searches them for components."""
    return sorted({*globals(), *__all__})
