"""The base class of configuration models."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from logdriven_dagster.config.yaml.field_names import current_names

if TYPE_CHECKING:
    from typing_extensions import Self

Option: TypeAlias = str | int | float | bool
"""Value of a Spark reader or writer option, or of a variable."""


_GIVEN: dict[frozenset[str], set[str]] = {}
"""The sets of given fields. Models are immutable, and copies have sets of their own."""


class Model(BaseModel):
    """Base class of configuration models: immutable, and rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    def model_post_init(self, _context: Any, /) -> None:
        """Share one set of the given fields between all models in which the same ones are given.

        Thousands of tables would have as many equal sets, a fifth of their memory.
        """
        given = self.model_fields_set
        object.__setattr__(
            self, "__pydantic_fields_set__", _GIVEN.setdefault(frozenset(given), given)
        )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "Self":
        """Return a copy with the fields of `update` changed, without cached properties."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON schema, in which the former names of fields are deprecated."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for former, name in current_names(cls).items():
            hint = {"deprecated": True, "description": f"renamed to {name}"}
            properties[former] = properties[name] | hint
        return schema
