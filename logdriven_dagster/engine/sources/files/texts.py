"""Text files as this process reads them: lines, encodings, and the location of a record."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.types.files import RecordsSource
from logdriven_dagster.engine.storage.locations import file_system

_LONGEST = 200
_CHUNK = 1 << 20
_LONGEST_VALUE = 2**31 - 1
_NO_END = "unexpected end of data"


def add_location(
    files: Sequence[str],
    problem: str,
    encoding: str,
    is_it: Callable[[str], bool],
    storage: Mapping[str, str],
) -> str:
    """Add file and line to a problem, as far as this process can read the files.

    `storage` are the project's settings of object stores.
    """
    for file in files:
        with suppress(Exception):  # the problem is reported without its line
            for number, line in enumerate(_lines(file, encoding, storage), 1):
                if is_it(line):
                    return f"{format_file(file)}, line {number}: {problem}"
    return f"{format_file(files[0])}: {problem}" if len(files) == 1 else problem


def encoding_of(source: RecordsSource) -> str:
    return find_declared_encoding(source) or "utf-8"


def find_declared_encoding(source: RecordsSource) -> str | None:
    """Return the encoding in the options of a source; None if it has none."""
    given = {name.lower(): str(value) for name, value in source.options.items()}
    return given.get("encoding") or given.get("charset")


def decodes(file: str, encoding: str, storage: Mapping[str, str]) -> bool:
    """Return True if every byte of a file is valid text; False if it cannot be read here."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)("strict")
        with _open_file(file, storage) as stream:
            while chunk := stream.read(_CHUNK):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except Exception:  # noqa: BLE001 - then Spark has to look at every value
        return False
    return True


def find_open_quote(stream: BinaryIO, encoding: str, sep: str, options: Mapping[str, str]) -> int:
    """Return the line at which a value begins whose quotes never end; 0 without one.

    Spark reads such a value to the end of the file, and none of the records in it. A file is
    parsed only if the number of its quotes is odd, or if an escape character makes it unknown.

    Args:
        stream: The bytes of the file, uncompressed.
        options: The options of Spark's reader with names in lower case.
    """
    quote, escape = options.get("quote", '"'), options.get("escape", '"')
    if len(quote) != 1:
        return 0
    decode = codecs.getreader(encoding)
    if escape == quote:
        text = decode(stream, "replace")
        chunks = iter(lambda: text.read(_CHUNK), "")
        if sum(chunk.count(quote) for chunk in chunks) % 2 == 0:
            return 0
        stream.seek(0)
    lines = (line.replace(sep, "\x1f") for line in decode(stream, "replace"))
    own: dict[str, Any] = {"doublequote": True} if escape == quote else {"escapechar": escape}
    csv.field_size_limit(_LONGEST_VALUE)
    rows, first = csv.reader(lines, delimiter="\x1f", quotechar=quote, strict=True, **own), 1
    try:
        for _ in rows:
            first = rows.line_num + 1
    except csv.Error as error:
        return first if _NO_END in str(error) else 0
    return 0


def format_file(file: str) -> str:
    """Format a file for messages: the path of a local one, otherwise its URL."""
    return re.sub("^file:/+", "/", file)


def escape_unprintable(text: str) -> str:
    r"""Return a text with `\x1b` and other characters that cannot be printed escaped."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def short(text: str) -> str:
    """Quote a text, truncated if it is long."""
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _lines(file: str, encoding: str, storage: Mapping[str, str]) -> Iterator[str]:
    with (
        _open_file(file, storage) as stream,
        io.TextIOWrapper(stream, encoding, "replace") as text,
    ):
        yield from text


def _open_file(file: str, storage: Mapping[str, str]) -> Any:
    import fsspec
    from fsspec.core import OpenFile, get_compression

    if not is_remote(file):
        return fsspec.open(file, "rb", compression="infer")
    system = file_system(file, storage)
    return OpenFile(system, file, "rb", get_compression(file, "infer"))
