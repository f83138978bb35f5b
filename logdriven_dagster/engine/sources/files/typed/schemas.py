"""Checks that the Parquet or ORC files of a source can be read exactly with one schema.

Spark takes the schema of one file: a column or nested field that another file lacks is NULL there,
and one that only another file has is dropped. With `columns`, Spark reads bytes of a file as
another type if the sizes fit: an unsigned number as a negative one, a time without a zone as one in
UTC.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.sources.files.typed.footers import Footer, empty_leaves
from logdriven_dagster.engine.sources.files.typed.held_types import (
    ALL_NULL,
    UNION,
    Array,
    Held,
    Map,
    Struct,
    convert_spark_type,
    have_one_meaning,
    is_exact,
    is_null,
    leaves,
    natural_type,
    readable_type,
    wider,
    with_kinds,
)
from logdriven_dagster.engine.sources.files.typed.held_types import Path as Names
from logdriven_dagster.engine.storage.data_files import DataFile
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SHAPES = {Struct: "a struct", Array: "an array", Map: "a map"}


def refuse_lost_columns(found: Iterable[Footer]) -> None:
    """Raise TerminalStepError for a column or nested field of an older file that a file lacks."""
    seen: dict[Names, str] = {}
    known: frozenset[Names] = frozenset()
    for footer in found:
        names = _names(footer.columns)
        nulls = _nulls([footer])
        if lost := [
            name
            for name in seen
            if name not in names and name[:-1] in names and name[:-1] not in nulls
        ]:
            older = seen[lost[0]]
            raise TerminalStepError(
                f"{footer.path}: the file has no column {_format_paths(lost)}, which {older} has; "
                "fix the file, or set missing_columns: allow for the table to read NULL"
            )
        if names is not known:
            seen |= {name: footer.path for name in names if name and name not in seen}
            known = names


def refuse_unions(found: Iterable[Footer]) -> None:
    """Raise TerminalStepError for an ORC file with a union, in which Spark reads no column."""
    for footer in found:
        for path, kind in leaves(footer.columns):
            if kind == UNION:
                raise TerminalStepError(
                    f"{footer.path}: the column {_format_path(path)} is a union, and Spark cannot "
                    "read a file with a union; write the file without it, or with a column for "
                    "each type"
                )


def refuse_same_names(found: Iterable[Footer]) -> None:
    """Raise TerminalStepError for a file with two columns or fields of one name in any case."""
    for columns, file in {footer.columns: footer.path for footer in found}.items():
        for name in _same_names(columns, ()):
            raise TerminalStepError(
                f"{file}: the file has two columns named {_format_path(name)}, and Spark does not "
                "distinguish upper and lower case; write the file with different names"
            )


@lru_cache(maxsize=10_000)
def _same_names(held: Held, path: Names) -> Sequence[Names]:
    """Return the names within a type that two fields of one struct have."""
    match held:
        case Struct():
            names = [(*path, name.lower()) for name, _ in held.fields]
            inner = [_same_names(part, (*path, name.lower())) for name, part in held.fields]
            return [*{name for name in names if names.count(name) > 1}, *chain(*inner)]
        case Array():
            return _same_names(held.element, (*path, "element"))
        case Map():
            key = _same_names(held.key, (*path, "key"))
            return [*key, *_same_names(held.value, (*path, "value"))]
        case str():
            return []


def columns_differ(found: Sequence[Footer]) -> bool:
    """Return True if the files differ in their columns, so that Spark has to open each of them."""
    return len({_names(footer.columns) for footer in found}) > 1


def kinds_in_files(found: Iterable[Footer]) -> Mapping[Names, Mapping[str, str]]:
    """Return the kinds of each leaf of the files, each with the first file that has it."""
    kinds: dict[Names, dict[str, str]] = {}
    known = set()
    for footer in found:
        if footer.columns not in known:
            known.add(footer.columns)
            for path, kind in leaves(footer.columns):
                kinds.setdefault(path, {}).setdefault(kind, footer.path)
    return kinds


def with_columns_of_null(found: Sequence[Footer], columns: "StructType | None") -> Sequence[Footer]:
    """Return the footers, with columns of NULL marked where other files have another type.

    `columns` are the declared ones. Only columns without a common type are inspected: the
    statistics of Parquet files, and the values of ORC files.
    """
    kinds = kinds_in_files(found)
    declared = dict(leaves(convert_spark_type(columns))) if columns is not None else {}
    nested = {path[:end] for path in (*kinds, *declared) for end in range(1, len(path))}
    paths = {
        path
        for path, files in kinds.items()
        if (path in declared and not all(is_exact(kind, declared[path]) for kind in files))
        or (columns is None and wider(files) is None)
        or path in nested
    }
    if not paths:
        return found
    return [
        replace(footer, path=file.path, files=(file,), columns=_with_nulls(footer, file, paths))
        for footer in found
        for file in footer.files
    ]


def _with_nulls(footer: Footer, file: DataFile, paths: Collection[Names]) -> Struct:
    """Return the columns of a file, with those at `paths` marked that hold only NULL."""
    empty = empty_leaves(footer, file, paths)
    found = with_kinds(
        footer.columns,
        lambda path, kind: ALL_NULL + kind if path in empty and not is_null(kind) else kind,
    )
    assert isinstance(found, Struct)
    return found


def refuse_mixed_types(
    found: Iterable[Footer], kinds: Mapping[Names, Mapping[str, str]], columns: Struct
) -> None:
    """Raise TerminalStepError for a column that no type reads exactly from each file.

    For files whose columns are not declared; `columns` are those of all files.
    """
    for path, files in kinds.items():
        for kind, file in files.items():
            if natural_type(kind) is None:
                raise TerminalStepError(
                    f"{file}: the column {_format_path(path)} is a {kind}, which Spark cannot "
                    f"read; write {_line(columns, kinds)}, which reads it as {readable_type(kind)}"
                )
        if wider(files) is None:
            held = {kind: file for kind, file in files.items() if not is_null(kind)}
            fix = _BY_TWO
            if all(is_exact(kind, "string") for kind in held):
                line = _line(columns, {**kinds, path: {"string": ""}})
                fix = f"write {line}, and CAST in the query"
            raise TerminalStepError(_several_types(path, held, fix))
    shapes: dict[Names, dict[str, str]] = {}
    for footer in found:
        for path, shape in _shapes(footer.columns):
            shapes.setdefault(path, {}).setdefault(shape, footer.path)
    for path, files in shapes.items():
        if len(files) > 1:
            raise TerminalStepError(_several_types(path, files, _BY_TWO))


_BY_TWO = "read the files with a separate step for each type, and CAST in the query"


def _several_types(path: Names, files: Mapping[str, str], fix: str) -> str:
    *others, last = (f"{kind} in {file}" for kind, file in files.items())
    return (
        f"the column {_format_path(path)} is {', '.join(others)} and {last}, "
        f"which no single type reads exactly; {fix}"
    )


def _line(columns: Struct, kinds: Mapping[Names, Mapping[str, str]]) -> str:
    """Return the `columns` line that reads the files."""
    widest = with_kinds(columns, lambda path, kind: wider(kinds[path]) or kind)
    assert isinstance(widest, Struct)
    named = [f"{_quoted_name(name)} {_ddl_of(part)}" for name, part in widest.fields]
    return f'columns: "{", ".join(named)}"'


def _ddl_of(held: Held) -> str:
    """Return a type in the syntax of `columns`; for a file, its columns."""
    match held:
        case str():
            return readable_type(held)
        case Struct():
            fields = ", ".join(
                f"{_quoted_name(name)}: {_ddl_of(part)}" for name, part in held.fields
            )
            return f"STRUCT<{fields}>"
        case Array():
            return f"ARRAY<{_ddl_of(held.element)}>"
        case Map():
            return f"MAP<{_ddl_of(held.key)}, {_ddl_of(held.value)}>"


def _quoted_name(name: str) -> str:
    """Quote a name where DDL requires it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else quote_name(name)


@lru_cache(maxsize=10_000)
def _shapes(held: Held, path: Names = ()) -> Sequence[tuple[Names, str]]:
    """Return the shape of each part of a type that holds more than NULL."""
    inner: list[Sequence[tuple[Names, str]]] = []
    match held:
        case str():
            return [] if is_null(held) else [(path, "a single value")]
        case Struct():
            inner = [_shapes(part, (*path, name.lower())) for name, part in held.fields]
        case Array():
            inner = [_shapes(held.element, (*path, "element"))]
        case Map():
            inner = [_shapes(held.key, (*path, "key")), _shapes(held.value, (*path, "value"))]
    return [(path, _SHAPES[type(held)]), *(each for part in inner for each in part)]


def refuse_inexact(
    found: Sequence[Footer], kinds: Mapping[Names, Mapping[str, str]], columns: "StructType"
) -> None:
    """Raise TerminalStepError for a file whose values the types of `columns` would change.

    Names in `columns` that no file has, and nested fields missing from it, are refused, too.
    """
    declared = convert_spark_type(columns)
    assert isinstance(declared, Struct)
    known = frozenset().union(*(_names(footer.columns) for footer in found))
    nulls = _nulls(found)
    if missing := [
        name
        for name in _names(declared)
        if name not in known and name[:-1] in known and name[:-1] not in nulls
    ]:
        named = [_restore_case(name, columns) for name in missing]
        raise TerminalStepError(f"columns has {', '.join(sorted(named))}, which is not in any file")
    for columns_of_file, file in {footer.columns: footer.path for footer in found}.items():
        for problem in _problems(columns_of_file, declared):
            raise TerminalStepError(f"{file}: {problem}")
    for path, kind in leaves(declared):
        files = kinds.get(path, {})
        if not have_one_meaning(files, kind):
            (one, file), (other, another), *_ = files.items()
            raise TerminalStepError(
                f"the column {_format_path(path)} is {one} in {file} and {other} in {another}; "
                "read the files with a separate step for each type"
            )


def _problems(held: Held, declared: Held, path: Names = ()) -> Iterator[str]:
    """Yield the problems of reading a file's types as the `declared` ones."""
    name = _format_path(path)
    match held, declared:
        case str(), _ if is_null(held):
            return
        case str(), str():
            if not is_exact(held, declared):
                yield (
                    f"the column {name} is {held} in the file and {declared.upper()} in "
                    f"`columns`, which would change its values; write {name} "
                    f"{readable_type(held)} in `columns`, and CAST in the query"
                )
        case Struct(), Struct():
            wanted = {field.lower(): part for field, part in declared.fields}
            for field, part in held.fields:
                if field.lower() in wanted:
                    yield from _problems(part, wanted[field.lower()], (*path, field))
                elif path:
                    yield f"`columns` does not contain the field {name}.{field}; add it"
        case Array(), Array():
            yield from _problems(held.element, declared.element, (*path, "element"))
        case Map(), Map():
            yield from _problems(held.key, declared.key, (*path, "key"))
            yield from _problems(held.value, declared.value, (*path, "value"))
        case _:
            yield from _problems_of_shapes(name, held, declared)


def _problems_of_shapes(name: str, held: Held, declared: Held) -> Iterator[str]:
    """Yield the problem of a nested type that is read as a different shape."""
    if "variant" in (held, declared) or (isinstance(declared, str) and declared not in _KNOWN):
        return
    in_file, wanted = (
        each if isinstance(each, str) else _SHAPES[type(each)] for each in (held, declared)
    )
    yield (
        f"the column {name} is {in_file} in the file and {wanted} in `columns`; use "
        "the name in the file"
    )


_KNOWN = {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date"}


def _nulls(found: Iterable[Footer]) -> set[Names]:
    """Return the paths of the leaves that hold only NULL in a file."""
    return {path for each in found for path, kind in leaves(each.columns) if is_null(kind)}


@lru_cache(maxsize=10_000)
def _names(held: Held) -> frozenset[Names]:
    """Return the paths of a type's columns, fields and elements, and all their ancestors."""
    return frozenset(path[:end] for path, _ in leaves(held) for end in range(len(path) + 1))


def _format_paths(paths: Iterable[Names]) -> str:
    return ", ".join(map(_format_path, paths))


def _format_path(path: Names) -> str:
    return ".".join(path)


def _restore_case(path: Names, columns: "StructType") -> str:
    """Format a path with its first name spelled as in `columns`."""
    first = next(name for name in columns.fieldNames() if name.lower() == path[0])
    return _format_path((first, *path[1:]))
