"""Names of ours for names of theirs: valid, distinct whatever their case, each time the same."""

import re
from collections.abc import Container

_STEP = 64
_TABLE = 100


def identifier(text: str, *, otherwise: str = "t") -> str:
    """Letters, digits and underscores that begin with a letter or underscore.

    `otherwise` is put before a digit, and stands for a text without any of them.
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or otherwise
    return f"{otherwise}_{name}" if name[0].isdigit() else name


def table_name(text: str, layer: str = "") -> str:
    """Return a table's name: identifiers between dots, at most 100 characters, below a layer."""
    parts = [*layer.split("."), *text.split(".")] if layer else text.split(".")
    return ".".join(identifier(part) for part in parts if part)[:_TABLE].rstrip(".")


def step_name(text: str, taken: Container[str] = ()) -> str:
    """Return the name of a step, check or job, at most 64 characters, that no other one has."""
    return distinct(identifier(text, otherwise="step")[:_STEP], taken, _STEP)


def distinct(name: str, taken: Container[str], longest: int = _TABLE) -> str:
    """The name, or the first of `name_2`, `name_3`, … that is not taken; `taken` is lower case."""
    number, found = 1, name
    while found.lower() in taken:
        number += 1
        ending = f"_{number}"
        found = name[: longest - len(ending)] + ending
    return found


def is_whole(text: str) -> bool:
    """Whether a text is a whole number of ASCII digits: `²` is a digit, too, and no number."""
    return re.fullmatch(r"[0-9]{1,18}", text) is not None
