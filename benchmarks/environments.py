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
    folder = _folder(name)
    python = folder / "bin" / "python"
    if not _is_complete(folder):
        uv, requirements = _uv(), str(_requirements(name))
        _run(name, [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
        install = [uv, "pip", "install", "--quiet", "--no-cache", "--compile-bytecode"]
        _run(name, [*install, "--python", str(python), "-r", requirements])
        (folder / ".complete").touch()
    return python


def versions(name: str) -> dict[str, str]:
    """Package → version of what the requirements name; nothing before the environment is made."""
    folder = _folder(name)
    if not _is_complete(folder):
        return {}
    command = [_uv(), "pip", "freeze", "--python", str(folder / "bin" / "python")]
    frozen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    installed = dict(line.split("==") for line in frozen.splitlines() if "==" in line)
    wanted = ("dbt-core", "dbt-spark", "sqlmesh", "pyspark", "dlt", "pyiceberg", "duckdb")
    return {package: installed[package] for package in wanted if package in installed}


def _requirements(name: str) -> Path:
    return _HERE / f"requirements-{name}.txt"


def _folder(name: str) -> Path:
    digest = hashlib.sha256(_requirements(name).read_bytes()).hexdigest()[:12]
    return WORK / "environments" / f"{name}-{digest}"


def _is_complete(folder: Path) -> bool:
    return (folder / ".complete").exists()


def _uv() -> str:
    return str(Path(sys.executable).with_name("uv"))


def _run(name: str, command: list[str]) -> None:
    environment = {key: text for key, text in os.environ.items() if key != "VIRTUAL_ENV"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise UnavailableError(f"{name} cannot be installed: {done.stderr.strip()}")
