"""Values of `var()`: those of dbt_project.yml, or the default in the call."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Variables:
    """The `vars` of a project's file."""

    project: str
    values: Mapping[str, Any] | None
    """None if the file could not be read."""

    def find(self, package: str, name: str, default: str | None) -> str:
        """Return the text of a variable in the code of a package.

        Raises LookupError if the value is not known.
        """
        if self.values is None:
            raise LookupError("dbt_project.yml could not be read; import the project's folder")
        of_package = self.values.get(package)
        scopes = [of_package if isinstance(of_package, dict) else {}, self.values]
        found = next((each[name] for each in scopes if name in each), None)
        if found is None:
            if default is None or package != self.project:
                raise LookupError(
                    f"dbt_project.yml has no value of {name}; add to its vars what dbt run --vars "
                    "passes"
                )
            return default
        if not isinstance(found, str | int | float | date) or "{{" in str(found):
            raise LookupError(f"the value of {name} in dbt_project.yml is not a constant")
        return str(found)


def read_variables(folder: Path) -> Variables:
    """Return the variables of the project in a folder."""
    try:
        content = yaml.safe_load((folder / "dbt_project.yml").read_text(encoding="utf-8"))
        given = content.get("vars") or {}
        return Variables(str(content.get("name") or ""), given if isinstance(given, dict) else None)
    except (OSError, ValueError, AttributeError, yaml.YAMLError, RecursionError):
        return Variables("", None)
