"""Combination of similar drafts into one file with `for_each`."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from logdriven_dagster.plugins.importers.drafts import DraftFile, Values

_Place: TypeAlias = tuple[str | int, ...]


def template(
    path: PurePosixPath, layer: str, drafts: Sequence[DraftFile], origin: str
) -> DraftFile:
    """Combine drafts into one file: shared values in the file, differing ones in its items.

    An item has every field that any draft has; null stands for an absent field. `layer` is the
    prefix of all table names, `origin` the comment of the file.
    """
    leaves = [dict(_leaves(draft.values, ())) for draft in drafts]
    places = list(dict.fromkeys(place for each in leaves for place in each))
    items: list[Values] = [{"name": draft.tables[0].removeprefix(f"{layer}.")} for draft in drafts]
    values: Values = {"for_each": items, "table": f"{layer}.${{each.name}}"}
    names: set[str] = {"name", "override"}
    for place in places:
        if place == ("table",):
            continue
        given = [each.get(place) for each in leaves]
        if all(value == given[0] for value in given):
            _put(values, place, given[0])
            continue
        name = _name(place, names)
        for item, value in zip(items, given, strict=True):
            item[name] = value
        _put(values, place, f"${{each.{name}}}")
    return DraftFile(path, values, origin)


def _leaves(value: Any, place: _Place) -> Iterator[tuple[_Place, Any]]:
    """Yield each field without nested fields; lists of texts count as values."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, (*place, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for n, part in enumerate(value):
            yield from _leaves(part, (*place, n))
    else:
        yield place, value


def _name(place: _Place, taken: set[str]) -> str:
    """Return the shortest unused name of a location: `column`, `source_column`."""
    words = [str(word) for word in place if isinstance(word, str)]
    for count in range(1, len(words) + 1):
        name = "_".join(words[-count:])
        if name not in taken:
            taken.add(name)
            return name
    raise AssertionError(place)


def _put(values: Values, place: _Place, value: Any) -> None:
    at: Any = values
    for part, following in pairwise(place):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(part, int):
            while len(at) <= part:
                at.append({})
            at = at[part]
        else:
            at = at.setdefault(part, empty)
    at[place[-1]] = value
