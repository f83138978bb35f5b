"""The files of a source for an engine that lists or reads files differently from Spark.

They are listed here: one file, or all files of a folder without subfolders, with the suffix of
their type. Names that Spark skips, beginning with `_` or `.`, are skipped; any other file that
Spark might or might not read is refused.
"""

import codecs
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from logdriven_dagster.config.locations import as_path, resolve_location
from logdriven_dagster.errors import TerminalStepError

_CHUNK = 1 << 20
_FIX = "which is not supported on {}; run the project on Spark (spark.engine: spark)"
_ODD = {'"': "a quote", "\x01": "the character 1", "\x00": "the character 0", "\ufdd0": "U+FDD0"}


def plain_files(location: str, form: str, engine: str) -> list[Path]:
    """Return the files sorted by name; TerminalStepError for any other content.

    `engine` is the name in the error of the engine that reads them.
    """
    path = Path(as_path(resolve_location(location)))
    if not path.is_dir():
        found = [path] if path.is_file() else []
    else:
        found = sorted(each for each in path.iterdir() if each.name[0] not in "._")
    for each in found:
        if each.is_dir() or each.suffix != f".{form}" or not each.stat().st_size:
            what = (
                "is a folder" if each.is_dir() else f"is empty, or its name does not end in .{form}"
            )
            raise TerminalStepError(f"{each} {what}, {_FIX.format(engine)}")
    if not found:
        raise TerminalStepError(f"file {path} does not exist, nor a folder with files")
    return found


def refuse_odd_texts(files: Sequence[Path], header: str, engine: str) -> None:
    """Raise TerminalStepError for a CSV file with another header, quotes or invalid UTF-8."""
    for file in files:
        stat = file.stat()
        if problem := _problem(str(file), stat.st_size, stat.st_mtime_ns, header, engine):
            raise TerminalStepError(f"{file}: {problem}")


@lru_cache(maxsize=10_000)
def _problem(path: str, _size: int, _changed: int, header: str, engine: str) -> str | None:
    """Return the problem of a file, cached for each version of it."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    first = True
    with Path(path).open("rb") as stream:
        try:
            while chunk := stream.read(_CHUNK):
                text = decoder.decode(chunk)
                line = text.partition("\n")[0].removesuffix("\r")
                if first and line != header:
                    return f"its header is {line[:200]}, but the columns are {header}"
                if odd := next((name for sign, name in _ODD.items() if sign in text), None):
                    return f"it holds {odd}, {_FIX.format(engine)}"
                if text.count("\r") != text.count("\r\n") and not text.endswith("\r"):
                    return f"there is a carriage return within a line, {_FIX.format(engine)}"
                first = False
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "it holds bytes that cannot be decoded as UTF-8"
    return None
