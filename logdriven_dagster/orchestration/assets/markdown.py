"""Markdown in Dagster's metadata of windows, with values escaped."""

import re
from collections.abc import Iterable, Sequence

from logdriven_dagster.config.secrets import redact

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: str, longest: int = 60) -> str:
    """Escape any text as one short line without links, images or ends of cells."""
    line = " ".join(redact(text).split())
    cut = line if len(line) <= longest else line[: longest - 1] + "…"
    return _PUNCTUATION.sub(r"\\\1", cut)


def grid(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are Markdown already."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
