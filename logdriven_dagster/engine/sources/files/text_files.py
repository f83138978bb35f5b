"""Text files of a source that Spark cannot read: refused before Spark reads them.

The first bytes of each file are read once for each version of it, local or in an object store.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.types.files import CsvSource, JsonSource, RecordsSource
from logdriven_dagster.engine.sources.files.first_bytes import (
    ANY_ENCODING,
    Content,
    content_of,
    explain_unreadable,
)
from logdriven_dagster.engine.sources.files.listing import (
    local_files,
    raise_transient,
    remote_files,
)
from logdriven_dagster.engine.sources.files.texts import find_declared_encoding, find_open_quote
from logdriven_dagster.engine.sources.known_sources import MOST_FILES, Key
from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.storage.locations import file_system, name_of
from logdriven_dagster.errors import TerminalStepError

_HADOOP_ONLY = (".deflate", ".lz4", ".snappy")
"""Endings of compressed files that only Hadoop's codecs read."""
_REQUESTS = 16
"""Number of concurrent requests to an object store."""


class _File(NamedTuple):
    """One version of a file."""

    location: str
    size: int
    version: int | str


def refuse_unreadable_files(reading: Reading, source: RecordsSource, key: Key) -> None:
    """Raise TerminalStepError for a file that Spark cannot read, or would read wrongly.

    Files that this process cannot list or read are left to Spark. `key` is that of the source.
    """
    encoding = find_declared_encoding(source) or "UTF-8"
    if isinstance(source, JsonSource) and source.multiline and not find_declared_encoding(source):
        encoding = ANY_ENCODING  # Spark finds out the encoding of such documents
    files = sorted(
        file
        for file in _files_of(reading, source, key)
        if not name_of(file.location).startswith(("_", "."))
    )
    for file, content in zip(files, _contents(files, reading.project.storage), strict=True):
        if content is not None and (
            problem := explain_unreadable(
                name_of(file.location),
                file.size,
                content,
                encoding,
                lambda: str(reading.spark.version),
            )
        ):
            raise TerminalStepError(f"{file.location}: {problem}")
    options = {name.lower(): str(value) for name, value in source.options.items()}
    if isinstance(source, CsvSource) and options.get("multiline", "").lower() == "true":
        _refuse_open_quotes(files, source.sep, encoding, options, reading.project.storage)


def _refuse_open_quotes(
    files: Sequence[_File],
    sep: str,
    encoding: str,
    options: Mapping[str, str],
    properties: Mapping[str, str],
) -> None:
    for file in files:
        system = file_system(file.location, properties) if is_remote(file.location) else None
        if line := _find_open_quote(system, file, sep, encoding, tuple(sorted(options.items()))):
            raise TerminalStepError(
                f"{file.location}, line {line}: the quotes of a value are not closed, and Spark "
                "would read the rest of the file as this value; fix the file, or set the quotes "
                'of the file, as in options: {quote: ""}'
            )


@lru_cache(maxsize=MOST_FILES)
def _find_open_quote(
    system: Any, file: _File, sep: str, encoding: str, options: tuple[tuple[str, str], ...]
) -> int:
    from fsspec.compression import compr
    from fsspec.utils import infer_compression

    opener = compr[infer_compression(file.location)]
    if file.location.endswith(_HADOOP_ONLY):
        return 0
    try:
        with ExitStack() as opened:
            opens = (
                Path(file.location).open if system is None else partial(system.open, file.location)
            )
            stream = opened.enter_context(opens("rb"))
            if opener is not None:
                stream = opened.enter_context(opener(stream, mode="rb"))
            return find_open_quote(stream, encoding, sep, dict(options))
    except (OSError, ImportError, LookupError, ValueError, EOFError) as error:
        raise_transient(file.location, error)
        return 0  # Spark reports a file that cannot be read


def _files_of(reading: Reading, source: RecordsSource, key: Key) -> Iterator[_File]:
    if reading.table.incremental.registers_files:
        for file in reading.run.files:
            yield _File(file.location, file.size, file.hash)
    elif is_remote(key.path):
        for found in remote_files(reading, source, key):
            yield _File(found.location, found.size, found.hash)
    else:
        for path, size, changed in _selected(reading, local_files(reading, key) or ()):
            yield _File(path, size, changed)


def _selected(
    reading: Reading, files: Collection[tuple[str, int, int]]
) -> Iterator[tuple[str, int, int]]:
    """Yield the files that the window reads."""
    if reading.files is None:
        yield from files
        return
    chosen = set(reading.files.select_paths(path for path, _, _ in files))
    yield from (file for file in files if file[0] in chosen)


def _contents(files: Sequence[_File], properties: Mapping[str, str]) -> Iterator[Content | None]:
    """Yield the content of each file; None if it cannot be read here."""
    if not files or not is_remote(files[0].location):
        yield from (_read_content(None, file) for file in files)
        return
    system = file_system(files[0].location, properties)
    with ThreadPoolExecutor(_REQUESTS) as pool:
        yield from pool.map(lambda file: _read_content(system, file), files)


def _read_content(system: Any, file: _File) -> Content | None:
    try:
        return _content(system, file)
    except Exception as error:  # noqa: BLE001 - Spark reports a file that cannot be read
        raise_transient(file.location, error)
        return None


@lru_cache(maxsize=MOST_FILES)
def _content(system: Any, file: _File) -> Content:
    """Return the content of one version of a file; `system` is None for a local one."""
    if not file.size:
        return Content()
    if system is not None:
        return content_of(
            file.size, lambda start, end: system.cat_file(file.location, start=start, end=end)
        )
    with Path(file.location).open("rb") as stream:

        def read(start: int, end: int) -> bytes:
            stream.seek(start)
            return stream.read(end - start)

        return content_of(file.size, read)
