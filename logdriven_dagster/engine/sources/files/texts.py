"""Text files as this process reads them: lines, encodings, and the location of a record."""

import codecs
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from logdriven_dagster.config.models.types.files import RecordsSource

_LONGEST = 200
_CHUNK = 1 << 20


def add_location(
    files: Sequence[str], problem: str, encoding: str, is_it: Callable[[str], bool]
) -> str:
    """Add file and line to a problem, as far as this process can read the files."""
    for file in files:
        try:
            for number, line in enumerate(_lines(file, encoding), 1):
                if is_it(line):
                    return f"{format_file(file)}, line {number}: {problem}"
        except (OSError, ImportError, LookupError, ValueError):
            continue
    return f"{format_file(files[0])}: {problem}" if len(files) == 1 else problem


def encoding_of(source: RecordsSource) -> str:
    return find_declared_encoding(source) or "utf-8"


def find_declared_encoding(source: RecordsSource) -> str | None:
    """Return the encoding in the options of a source; None if it has none."""
    given = {name.lower(): str(value) for name, value in source.options.items()}
    return given.get("encoding") or given.get("charset")


def decodes(file: str, encoding: str) -> bool:
    """Return True if every byte of a file is valid text; False if it cannot be read here."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)("strict")
        with _open_file(file) as stream:
            while chunk := stream.read(_CHUNK):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except (OSError, ImportError, LookupError, ValueError):
        return False
    return True


def format_file(file: str) -> str:
    """Format a file for messages: the path of a local one, otherwise its URL."""
    return re.sub("^file:/+", "/", file)


def escape_unprintable(text: str) -> str:
    r"""Return a text with `\x1b` and other characters that cannot be printed escaped."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def short(text: str) -> str:
    """Quote a text, truncated if it is long."""
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _lines(file: str, encoding: str) -> Iterator[str]:
    with _open_file(file) as stream, io.TextIOWrapper(stream, encoding, "replace") as text:
        yield from text


def _open_file(file: str) -> Any:
    import fsspec

    return fsspec.open(file, "rb", compression="infer")
