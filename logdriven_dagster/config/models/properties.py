"""Type of `properties:`, parameters of a table by group and key. Source: BDRE, PROPERTIES."""

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, StringConstraints

from logdriven_dagster.config.models.fields import IDENTIFIER, Option

PROPERTY_REFERENCE = re.compile(r"\$\{(\w+)\.([^}\s]+)\}")


def _no_item(group: str) -> str:
    if group == "each":
        raise ValueError("each is reserved for items of a template; choose another name")
    return group


def _names_no_property(value: Option) -> Option:
    if isinstance(value, str) and PROPERTY_REFERENCE.search(value):
        raise ValueError("a property cannot refer to another property")
    return value


Properties: TypeAlias = dict[
    Annotated[
        str,
        StringConstraints(pattern=rf"^{IDENTIFIER}$", max_length=128),
        AfterValidator(_no_item),
    ],
    dict[
        Annotated[str, StringConstraints(pattern=r"^[\w.-]+$", max_length=128)],
        Annotated[Option, AfterValidator(_names_no_property)],
    ],
]
"""Mapping of group to key to value."""
