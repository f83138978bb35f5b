"""Whether the Parquet or ORC files of a source can be read with one schema, each value as it is.

Spark takes the schema of one file: a column or nested field that another one lacks is NULL there,
and one that only another one has is not there at all. With `columns` it reads bytes of a file as
another type where their sizes fit: an unsigned number as a negative one, a time without a zone as
one of UTC.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from logdriven_dagster.engine.sources.files.footers import Footer
from logdriven_dagster.engine.sources.files.held_types import (
    UNION,
    Array,
    Held,
    Map,
    Struct,
    ddl_of,
    declared_type,
    have_one_meaning,
    is_exact,
    leaves,
    natural_type,
    quoted_name,
    readable_type,
    wider,
)
from logdriven_dagster.engine.sources.files.held_types import Path as Names
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SHAPES = {Struct: "a struct", Array: "an array", Map: "a map"}


def refuse_lost_columns(found: Iterable[Footer]) -> None:
    """TerminalStepError for a column or nested field that a file lacks and an older one has."""
    seen: dict[Names, str] = {}
    known: frozenset[Names] = frozenset()
    for footer in found:
        names = _names(footer.columns)
        if lost := [name for name in seen if name not in names and name[:-1] in names]:
            older = seen[lost[0]]
            raise TerminalStepError(
                f"{footer.path}: the file has no column {_listed(lost)}, which {older} has; mend "
                "it, or say missing_columns: allow for the table, and it is NULL there"
            )
        if names is not known:
            seen |= {name: footer.path for name in names if name and name not in seen}
            known = names


def columns_differ(found: Sequence[Footer]) -> bool:
    """Whether not all files have the same columns, so that Spark has to look at each of them."""
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


def refuse_mixed_types(kinds: Mapping[Names, Mapping[str, str]], columns: Struct) -> None:
    """TerminalStepError for a column that no type reads exactly from each file.

    For files whose columns are not declared; `columns` are those of all files.
    """
    for path, files in kinds.items():
        for kind, file in files.items():
            if natural_type(kind) is None:
                raise TerminalStepError(
                    f"{file}: the column {_shown(path)} is a {kind}, which Spark cannot read; "
                    f"write {_fix(kind, columns)}"
                )
        if len(files) > 1 and wider(files) is None:
            (one, file), (other, another), *_ = files.items()
            raise TerminalStepError(
                f"the column {_shown(path)} is {one} in {file} and {other} in {another}, which no "
                "type reads exactly; read the files by a step for each of the two, and CAST in the "
                "query"
            )


def _fix(kind: str, columns: Struct) -> str:
    """Return the line that reads the columns of files, but for those that nothing reads."""
    known = [
        f"{quoted_name(name)} {ddl_of(part)}"
        for name, part in columns.fields
        if all(leaf != UNION for _, leaf in leaves(part))
    ]
    how = "leaves it out" if kind == UNION else f"reads it as {readable_type(kind)}"
    return f'columns: "{", ".join(known)}", which {how}'


def refuse_inexact(
    found: Iterable[Footer], kinds: Mapping[Names, Mapping[str, str]], columns: "StructType"
) -> None:
    """TerminalStepError for a file whose values would be others in the types of `columns`.

    Also for names there that no file has, and for nested fields that are not named there.
    """
    declared = declared_type(columns)
    assert isinstance(declared, Struct)
    known = frozenset().union(*(_names(footer.columns) for footer in found))
    if missing := [name for name in _names(declared) if name not in known and name[:-1] in known]:
        named = [_cased(name, columns) for name in missing]
        raise TerminalStepError(f"columns names {', '.join(sorted(named))}, which no file has")
    for columns_of_file, file in {footer.columns: footer.path for footer in found}.items():
        for problem in _problems(columns_of_file, declared):
            raise TerminalStepError(f"{file}: {problem}")
    for path, kind in leaves(declared):
        files = kinds.get(path, {})
        if not have_one_meaning(files, kind):
            (one, file), (other, another), *_ = files.items()
            raise TerminalStepError(
                f"the column {_shown(path)} is {one} in {file} and {other} in {another}; read the "
                "files by a step for each of the two"
            )


def _problems(held: Held, declared: Held, path: Names = ()) -> Iterator[str]:
    """Yield what is wrong with the types of a file, of which those of `declared` are read."""
    name = _shown(path)
    match held, declared:
        case str(), str():
            if not is_exact(held, declared):
                yield (
                    f"the column {name} is {held} in the file and {declared.upper()} in `columns`, "
                    f"which would change its values; write {name} {readable_type(held)} there, and "
                    "CAST in the query"
                )
        case Struct(), Struct():
            wanted = {field.lower(): part for field, part in declared.fields}
            for field, part in held.fields:
                if field.lower() in wanted:
                    yield from _problems(part, wanted[field.lower()], (*path, field))
                elif path:
                    yield f"`columns` does not name the field {name}.{field}; name it there"
        case Array(), Array():
            yield from _problems(held.element, declared.element, (*path, "element"))
        case Map(), Map():
            yield from _problems(held.key, declared.key, (*path, "key"))
            yield from _problems(held.value, declared.value, (*path, "value"))
        case _:
            yield from _problems_of_shapes(name, held, declared)


def _problems_of_shapes(name: str, held: Held, declared: Held) -> Iterator[str]:
    """Yield what is wrong where one of two types is nested, or each in another way."""
    if "variant" in (held, declared) or (isinstance(declared, str) and declared not in _KNOWN):
        return
    in_file, wanted = (
        each if isinstance(each, str) else _SHAPES[type(each)] for each in (held, declared)
    )
    yield f"the column {name} is {in_file} in the file and {wanted} in `columns`; name it as it is"


_KNOWN = {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date"}


@lru_cache(maxsize=10_000)
def _names(held: Held) -> frozenset[Names]:
    """Return the paths of a type's columns, fields and elements, and of all that is above them."""
    return frozenset(path[:end] for path, _ in leaves(held) for end in range(len(path) + 1))


def _listed(paths: Iterable[Names]) -> str:
    return ", ".join(map(_shown, paths))


def _shown(path: Names) -> str:
    return ".".join(path)


def _cased(path: Names, columns: "StructType") -> str:
    """Show a path as `columns` spells its first name."""
    first = next(name for name in columns.fieldNames() if name.lower() == path[0])
    return _shown((first, *path[1:]))
