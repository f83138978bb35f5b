"""Tables as assets of Dagster: the name of the one and the key of the other."""

from dagster import AssetKey


def asset_key(table: str) -> AssetKey:
    """`ods.flights` → `ods/flights`."""
    return AssetKey(table.split("."))


def table_name(key: AssetKey) -> str:
    """`ods/flights` → `ods.flights`."""
    return ".".join(key.path)
