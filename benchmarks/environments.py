"""Virtual environments of the contestants that must not share ours, made by uv below `.bench/`."""

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from benchmarks.settings import WORK
from benchmarks.tasks import UnavailableError

_HERE = Path(__file__).resolve().parent


@cache
def python_of(name: str) -> Path:
    """The interpreter of an environment, made if it is not there or its requirements changed.

    UnavailableError holds the installer's own words.
    """
    requirements = _HERE / f"requirements-{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = WORK / "environments" / f"{name}-{digest}"
    python = folder / "bin" / "python"
    if (folder / ".complete").exists():
        return python
    uv = str(Path(sys.executable).with_name("uv"))
    _run(name, [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
    _run(name, [uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(requirements)])
    (folder / ".complete").touch()
    return python


@cache
def versions(name: str) -> dict[str, str]:
    """Package → version of what the requirements name."""
    uv = str(Path(sys.executable).with_name("uv"))
    frozen = subprocess.run(
        [uv, "pip", "freeze", "--python", str(python_of(name))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    installed = dict(line.split("==") for line in frozen.splitlines() if "==" in line)
    wanted = ("dbt-core", "dbt-spark", "sqlmesh", "pyspark", "duckdb")
    return {package: installed[package] for package in wanted if package in installed}


def _run(name: str, command: list[str]) -> None:
    environment = {key: text for key, text in os.environ.items() if key != "VIRTUAL_ENV"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise UnavailableError(f"{name} cannot be installed: {done.stderr.strip()}")
