"""Python transforms: user functions, loaded by reference and called by parameter name."""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.project import PROJECT_FILE
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load_function(reference: str, folder: Path) -> Callable[..., Any]:
    """Load `package.module:function`, or `file.py:function` relative to `folder`.

    Raises TerminalStepError if the module cannot be imported or lacks the function.
    """
    place, _, name = reference.rpartition(":")
    try:
        module = _module(place, folder)
    except ImportError as error:
        raise TerminalStepError(f"python: {reference}: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise TerminalStepError(f"python: {reference}: {place} has no function {name}")
    return function  # type: ignore[no-any-return]


def load_transform(spark: "SparkSession", reference: str, folder: Path) -> Callable[..., Any]:
    """Load a function that may send other functions to Spark's Python workers.

    `reference` and `folder` are as in `load_function`. If workers cannot import the modules of the
    project's folder, these are pickled by value.
    """
    function = load_function(reference, folder)
    if not mode_of(spark).imports_here(spark):
        from pyspark import cloudpickle

        for module in _modules_of_the_project(folder):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return function


def _modules_of_the_project(folder: Path) -> list[ModuleType]:
    """Return the imported modules from a project's folder, without packages installed in it."""
    above = (folder, *folder.parents)
    root = next((each for each in above if (each / PROJECT_FILE).is_file()), folder)
    files = {module: getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    own = [module for module, file in files.items() if file.startswith(f"{root}{os.sep}")]
    return [module for module in own if "site-packages" not in files[module]]


def _module(place: str, folder: Path) -> Any:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = (folder / place).resolve()
    if not path.is_file():
        raise TerminalStepError(f"python: file {path} does not exist")
    # A unique name for every path: two tables may both have a transform.py.
    name = f"logdriven_transform_{path.stem}_{sha256(bytes(path)).hexdigest()[:8]}"
    from pyspark import cloudpickle

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Python workers cannot import it: its functions are pickled by value.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spec.loader.exec_module(module)
    return module


def call(
    reference: str, function: Callable[..., Any], known: Mapping[str, Callable[[], Any]]
) -> "DataFrame":
    """Call a transform with the values of its parameters and return its DataFrame.

    `known` maps names to functions that create the values. Raises TerminalStepError if a parameter
    is unknown, or if the result is not a DataFrame.
    """
    from pyspark.sql import DataFrame

    result = function(**arguments(reference, function, known))
    if not isinstance(result, DataFrame):
        raise TerminalStepError(
            f"python: {reference} returned {type(result).__name__}, not a Spark DataFrame"
        )
    return result


def arguments(
    reference: str, function: Callable[..., Any], known: Mapping[str, Callable[[], Any]]
) -> dict[str, Any]:
    """Return the values for a function's parameters.

    `known` maps names to functions that create the values on demand, so that no unused table is
    opened. Raises TerminalStepError for an unknown parameter without a default.
    """
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in known:
            found[name] = known[name]()
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise TerminalStepError(
                f"python: {reference}: no value for parameter {name!r}; known: "
                f"{', '.join(sorted(known))}"
            )
    return found
