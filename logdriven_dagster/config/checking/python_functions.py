"""Static checks of the user's Python functions, without running any of their code."""

import ast
import difflib
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TypeAlias

from logdriven_dagster.config.yaml.documents import read_text
from logdriven_dagster.errors import ConfigError

Mistake: TypeAlias = tuple[str, str | None]
"""A problem and its fix."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def check_function(reference: str, folder: Path, known: frozenset[str]) -> Iterator[Mistake]:
    """Yield the errors that a call of `file.py:function` or `module:function` would raise.

    `known` are the parameters that are passed. Raises ConfigError for a file that cannot be read.
    """
    place, _, name = reference.rpartition(":")
    path = folder / place if place.endswith(".py") else _find_module_file(place)
    if path is None:
        hint = (
            "it must be importable where logdriven runs; for a file in this folder, "
            "write file.py:name"
        )
        yield f"Python module {place} not found", hint
        return
    if path.suffix != ".py" or not path.is_file():
        return  # a module without Python source, or a missing file that is already reported
    try:
        tree = ast.parse(read_text(path), path.name)
    except SyntaxError as error:
        raise ConfigError(path, error.lineno, "", f"not Python: {error.msg}") from None
    names = dict(_list_names(tree.body))
    if "*" in names and name not in names:
        return
    if name not in names:
        defined = {key for key, node in names.items() if isinstance(node, _Function)}
        functions = sorted(key for key in defined if not key.startswith("_"))
        near = difflib.get_close_matches(name, functions, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(functions) or 'none'}"
        yield f"{place} has no function {name}", hint
        return
    node = names[name]
    if isinstance(node, _Function) and not node.decorator_list:
        yield from _find_unknown_parameters(node, known)


def _find_unknown_parameters(function: _Function, known: frozenset[str]) -> Iterator[Mistake]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)]
    needed += [
        argument
        for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if default is None
    ]
    for argument in needed:
        if argument.arg not in known:
            near = difflib.get_close_matches(argument.arg, known, n=1)
            names = f"a parameter can be {', '.join(sorted(known))}"
            hint = f"did you mean {near[0]!r}?" if near else names
            yield f"{function.name} has the unknown parameter {argument.arg}", hint


def _list_names(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names that a module's statements bind; `*` for names that cannot be determined."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node
            case ast.ClassDef(name=name):
                yield name, node
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    yield alias.asname or alias.name.partition(".")[0], node
            case _:
                for part in ast.walk(node):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        yield part.id, node
                for field in ("body", "orelse", "finalbody"):
                    yield from _list_names(getattr(node, field, []))
                for handler in getattr(node, "handlers", []):
                    yield from _list_names(handler.body)


def _find_module_file(name: str) -> Path | None:
    """Return the file of a module without importing its package, which would run code."""
    path: list[str] | None = None
    spec = None
    for n in range(1, name.count(".") + 2):
        spec = PathFinder.find_spec(".".join(name.split(".")[:n]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec and spec.origin else Path(name)
