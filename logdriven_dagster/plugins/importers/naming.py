"""Names for imported objects: valid, unique ignoring case, and stable between imports."""

import re
from collections.abc import Container

_STEP = 64
_TABLE = 100


def identifier(text: str, *, otherwise: str = "t") -> str:
    """Return a name of letters, digits and underscores that does not begin with a digit.

    `otherwise` is the prefix before a digit, and replaces a text without valid characters.
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or otherwise
    return f"{otherwise}_{name}" if name[0].isdigit() else name


def table_name(text: str, layer: str = "") -> str:
    """Return a table's name: identifiers between dots, at most 100 characters, below a layer."""
    parts = [*layer.split("."), *text.split(".")] if layer else text.split(".")
    return ".".join(identifier(part) for part in parts if part)[:_TABLE].rstrip(".")


def step_name(text: str, taken: Container[str] = ()) -> str:
    """Return an unused name of a step, check or job of at most 64 characters."""
    return distinct(identifier(text, otherwise="step")[:_STEP], taken, _STEP)


def distinct(name: str, taken: Container[str], longest: int = _TABLE) -> str:
    """Return the first of `name`, `name_2`, `name_3`, … that is not in `taken` (lower case).

    The result has at most `longest` characters.
    """
    number, found = 1, name
    while found.lower() in taken:
        number += 1
        ending = f"_{number}"
        found = name[: longest - len(ending)] + ending
    return found


def is_whole(text: str) -> bool:
    """Return True if a text is an integer of ASCII digits; in Unicode `²` is a digit, too."""
    return re.fullmatch(r"[0-9]{1,18}", text) is not None
