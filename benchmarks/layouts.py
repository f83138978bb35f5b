"""The generated data in the layout of a shape: a folder of files, or a folder for each day."""

import subprocess
from dataclasses import replace
from pathlib import Path

from benchmarks import data
from benchmarks.settings import environment, own_python

_PROGRAM = Path(__file__).resolve().parent / "programs" / "by_day.py"


def make(shape: data.Shape, parent: Path) -> Path:
    """The folder with the files of a shape; written once."""
    folder = parent / shape.name
    if folder.exists() or not shape.by_day:
        return data.make(shape, parent)
    flat, draft = data.make(replace(shape, by_day=False), parent), folder.with_suffix(".draft")
    command = [own_python(), str(_PROGRAM), str(flat), str(draft)]
    subprocess.run(command, env=environment(), check=True, capture_output=True)
    draft.rename(folder)
    return folder
