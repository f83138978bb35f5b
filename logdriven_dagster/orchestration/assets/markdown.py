"""Markdown that Dagster shows beside windows, in which a value never means anything but itself."""

import re
from collections.abc import Iterable, Sequence

from logdriven_dagster.config.secrets import redact

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: str, longest: int = 60) -> str:
    """Write any text as one short line that is neither a link, nor an image, nor a cell's end."""
    line = " ".join(redact(text).split())
    cut = line if len(line) <= longest else line[: longest - 1] + "…"
    return _PUNCTUATION.sub(r"\\\1", cut)


def grid(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; its cells are Markdown already."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
