"""Type widening: types that hold the values of two others without loss, including nested types.

An integer may become wider, a decimal gain digits, a struct gain fields, and a type within arrays
and maps likewise. Fields match by name, in any case.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.tables import MissingColumns

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, DecimalType, StructField, StructType

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_PROMOTIONS = {("int", "bigint"), ("float", "double")}
"""Type promotions that Iceberg allows for a table's column; decimals may gain digits, too."""


class MisfitError(Exception):
    """No type holds the values of both types without loss."""

    def __init__(self, place: str, old: "DataType", new: "DataType | None") -> None:
        super().__init__(place)
        self.place = place
        """The column, or the path of a part of it, such as `items.element.price`."""
        self.old = old.simpleString()
        self.new = new.simpleString() if new else None
        """Name of the new type; None if it lacks a field of the old one."""


def common_type(old: "StructField", new: "DataType", *, lost: MissingColumns) -> "DataType":
    """Return the type of a column that holds values of both types; old fields come first.

    `lost` determines whether the new type may lack fields of the old one. Raises MisfitError if
    there is no such type.
    """
    return _Meeting(lost).merge(old.dataType, new, old.name)


class _Meeting:
    def __init__(self, lost: MissingColumns) -> None:
        self._lost = lost

    def merge(self, old: "DataType", new: "DataType", place: str) -> "DataType":
        from pyspark.sql.types import ArrayType, MapType, StructType

        before, after = old.simpleString(), new.simpleString()
        if after in (before, "void"):
            return old
        if isinstance(old, StructType) and isinstance(new, StructType):
            return self._merge_structs(old, new, place)
        if isinstance(old, ArrayType) and isinstance(new, ArrayType):
            return ArrayType(self.merge(old.elementType, new.elementType, f"{place}.element"))
        if isinstance(old, MapType) and isinstance(new, MapType):
            if old.keyType.simpleString() != new.keyType.simpleString():
                raise MisfitError(f"{place}.key", old.keyType, new.keyType)
            value = self.merge(old.valueType, new.valueType, f"{place}.value")
            return MapType(old.keyType, value)
        if (common := _wider(old, new)) is None:
            raise MisfitError(place, old, new)
        return common

    def _merge_structs(self, old: "StructType", new: "StructType", place: str) -> "StructType":
        from pyspark.sql.types import StructField, StructType

        known, given = ({f.name.lower(): f for f in kind.fields} for kind in (old, new))
        if len(known) < len(old.fields) or len(given) < len(new.fields):
            raise MisfitError(place, old, new)  # two fields have the same name
        fields = []
        for name, field in known.items():
            path, part = f"{place}.{field.name}", given.pop(name, None)
            if part is None and self._lost == "refuse":
                raise MisfitError(path, field.dataType, None)
            kind = (
                field.dataType if part is None else self.merge(field.dataType, part.dataType, path)
            )
            fields.append(StructField(field.name, kind))
        return StructType([*fields, *given.values()])


def _wider(old: "DataType", new: "DataType") -> "DataType | None":
    """Return the one of two simple types that holds the values of both, or None."""
    from pyspark.sql.types import DecimalType

    before, after = old.simpleString(), new.simpleString()
    if before == "void" or (before, after) in _PROMOTIONS:
        return new
    if before in _INTEGERS and after in _INTEGERS:
        return max(old, new, key=lambda kind: _INTEGERS.index(kind.simpleString()))
    if before == "double" and after in ("float", "tinyint", "smallint", "int"):
        return old
    if isinstance(old, DecimalType):
        return _wider_decimal(old, new)
    return None


def _wider_decimal(old: "DecimalType", new: "DataType") -> "DataType | None":
    from pyspark.sql.types import DecimalType

    digits = old.precision - old.scale
    if not isinstance(new, DecimalType):
        return old if digits >= _DIGITS.get(new.simpleString(), digits + 1) else None
    if new.scale == old.scale:
        return max(old, new, key=lambda kind: kind.precision)
    if new.scale < old.scale:
        return old if new.precision - new.scale <= digits else None
    return None
