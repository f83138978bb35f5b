"""Registry of source, target and connection types: built-in ones and those of installed packages.

A package registers the model of a type as an entry point of the group `logdriven.sources`,
`logdriven.targets` or `logdriven.connections` (docs/custom-sources-and-targets.md). An unusable
type affects only the tables and connections that name it: their error gives the reason.
"""

from collections.abc import Sequence
from functools import reduce
from importlib.metadata import EntryPoint
from inspect import isabstract
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    Discriminator,
    Field,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from logdriven_dagster.config.models.types.connections import ConnectionConfig, ConnectionType
from logdriven_dagster.config.models.types.files import (
    CsvSource,
    FileSource,
    FileTarget,
    JsonSource,
    TextSource,
)
from logdriven_dagster.config.models.types.iceberg import IcebergSource, IcebergTarget
from logdriven_dagster.config.models.types.jdbc import JdbcSource, JdbcTarget
from logdriven_dagster.config.models.types.parts import Part
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.spark_table import CatalogSource
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.yaml.field_locations import list_types
from logdriven_dagster.entry_points import entry_points_of
from logdriven_dagster.errors import in_brief

M = TypeVar("M", bound=BaseModel)

_UNUSABLE: dict[str, str] = {}
"""Reason why a registered type is unusable, by `group name` of its entry point."""


def _find_types(base: Any, *ours: type[M]) -> tuple[type[M], ...]:
    """Return the built-in types, and those of installed packages by name of their entry points."""
    found = list(ours)
    for point in entry_points_of(base.group):
        try:
            model = point.load()
            if model not in found:
                _refuse_unusable(point, model, base, found)
                found.append(model)
        except Exception as error:  # noqa: BLE001 - a foreign module may raise anything
            problem = in_brief(f"{type(error).__name__}: {error}")
            _UNUSABLE[f"{base.group} {point.name}"] = f"{point.value} cannot be used: {problem}"
    return tuple(found)


def _refuse_unusable(
    point: EntryPoint, model: object, base: Any, known: Sequence[type[BaseModel]]
) -> None:
    if not (isinstance(model, type) and issubclass(model, base)) or isabstract(model):
        raise TypeError(f"it must be a concrete subclass of {base.__module__}.{base.__name__}")
    named = list_types(model)
    if point.name not in named:
        raise TypeError(f"its field `type` must be a Literal of {point.name!r}")
    if taken := {name for other in known for name in list_types(other)} & {*named}:
        raise TypeError(f"{', '.join(sorted(taken))} is already registered")


SOURCES = _find_types(
    Source,
    FileSource,
    TextSource,
    CsvSource,
    JsonSource,
    JdbcSource,
    CatalogSource,
    IcebergSource,
)
TARGETS = _find_types(Target, IcebergTarget, FileTarget, JdbcTarget)

CONNECTIONS = _find_types(ConnectionType, ConnectionConfig)


def _name_connection_model(values: Any) -> str:
    """Name the model of a connection by its `type`, or else by the field that marks one."""
    given = values.get("type") if isinstance(values, dict) else getattr(values, "type", None)
    if given is None:
        marked = [each for each in CONNECTIONS if each.mark in _get_keys(values)]
        return (marked or [ConnectionConfig])[0].__name__
    return next((each.__name__ for each in CONNECTIONS if given in list_types(each)), str(given))


def _get_keys(values: Any) -> frozenset[str]:
    return frozenset(values) if isinstance(values, dict) else frozenset()


def _validate_connection(values: Any, handler: ValidatorFunctionWrapHandler) -> ConnectionType:
    """Validate a connection; refuse one whose type does not follow from its fields."""
    keys, marks = _get_keys(values), [each.mark for each in CONNECTIONS if each.mark]
    marked = [mark for mark in marks if mark in keys]
    if "type" not in keys:
        is_bare = isinstance(values, dict) and keys <= ConnectionConfig.model_fields.keys()
        if len(marked) > 1 or (is_bare and not marked):
            raise ValueError(f"write either {' or '.join(marks)}")
    elif marked:
        for each in CONNECTIONS:
            if values["type"] in list_types(each) and each.mark and each.mark not in keys:
                raise ValueError(f"type {values['type']} needs {each.mark}")
    found: ConnectionType = handler(values)
    return found


if TYPE_CHECKING:
    ConnectionField: TypeAlias = ConnectionType
    SourceField: TypeAlias = Source
    TargetField: TypeAlias = Target
else:
    ConnectionField = ConnectionConfig
    if len(CONNECTIONS) > 1:
        _tagged = [Annotated[each, Tag(each.__name__)] for each in CONNECTIONS]
        _chosen = Annotated[reduce(or_, _tagged), Discriminator(_name_connection_model)]
        ConnectionField = Annotated[_chosen, WrapValidator(_validate_connection)]
    SourceField = Annotated[reduce(or_, SOURCES), Field(discriminator="type")]
    TargetField = Annotated[reduce(or_, TARGETS), Field(discriminator="type")]


def explain_unregistered(name: str, models: list[type[BaseModel]]) -> tuple[str, str] | None:
    """Return the reason why a registered type is unusable, and how to get other types.

    The reason is empty if no package registers `name`; None if `models` are neither sources nor
    targets nor connections.
    """
    groups = (model.group for model in models if issubclass(model, (Part, ConnectionType)))
    group = next(groups, None)
    if group is None:
        return None
    page = "docs/custom-sources-and-targets.md"
    others = f"or a type that a package registers as {group} ({page})"
    return _UNUSABLE.get(f"{group} {name}", ""), others
