"""The store for each type of target."""

from pkgutil import resolve_name

from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.engine.targets.store import Store, StoreContext


def store(context: StoreContext, table: str, target: Target) -> Store:
    """Return the store for a target of this table."""
    found: Store = resolve_name(target.store)(context, table, target)
    return found
