"""Staging folders of jobs: their names, and the files that Spark writes there."""

import re

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.storage.locations import Folder, folder_at, name_of

UPKEEP = 0
"""The job id of maintenance, which stages existing rows; the run log counts from 1."""

STAGED = re.compile(r"(\d+)-.+")
"""The names of staging folders, which start with the job id."""

STRETCH = "__stretch"
"""Part of the name of a folder that holds one folder per window of a pass."""

JOB = "_job"
"""Partition column of a pass: the job ids of its windows, which no file contains."""

PARTITION = "logdriven_partition"
"""Partition column for a table's own partitions; no file contains it."""

_OF_A_JOB = re.compile(rf"{JOB}=(\d+)")

ONLY_COMMITTED = {
    # Version 2 moves the files of a task before the job has succeeded, so files of failed or
    # repeated tasks may remain; the folder's content determines which files are published.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
"""Options of every writer of staged files."""


def staging_of(project: Project, table: str) -> Folder:
    """Return the folder in which a table's rows are staged."""
    return folder_at(f"{project.staging}/{table}", project.storage)


def staging_folder(parent: Folder, job_id: int, what: str) -> Folder:
    """Create an empty folder below `parent` for the output of a job."""
    return parent.new(f"{job_id}-{what}")


def folder_in_stretch(folder: Folder, job_id: int) -> Folder:
    """Return the folder of one window in a pass, which exists if the window has rows."""
    return folder.get_subfolder(f"{JOB}={job_id}")


def folder_of_pass(folder: str) -> str:
    """Return the folder with all windows of the pass that staged this folder."""
    parent, _, name = folder.rpartition("/")
    return parent if _OF_A_JOB.fullmatch(name) else folder


def find_staging_folders(parent: Folder) -> dict[str, int]:
    """Return the staging folders below `parent` with their job ids."""
    found: dict[str, int] = {}
    for name in parent.names():
        if match := STAGED.fullmatch(name):
            folder = parent.get_subfolder(name)
            inside = folder.names() if STRETCH in name else []
            jobs = [int(each[1]) for each in map(_OF_A_JOB.fullmatch, inside) if each]
            found |= {folder_in_stretch(folder, job).location: job for job in jobs}
            if not jobs:
                found[folder.location] = int(match[1])
    return found


def is_staging_folder(folder: str) -> bool:
    """Return whether a job stages the rows of a window in this folder."""
    name = name_of(folder)
    return bool(STAGED.fullmatch(name) or _OF_A_JOB.fullmatch(name))


def staging_name(folder: str) -> str:
    """Return the name of a staging folder, with the name of its pass in front, if it has one."""
    parent, _, name = folder.rpartition("/")
    return f"{name_of(parent)}/{name}" if _OF_A_JOB.fullmatch(name) else name


def data_files(folder: Folder) -> list[str]:
    """Return the files that Spark wrote into a folder; other names begin with `_` or `.`.

    Rows that Spark partitioned by a column are in subfolders named `column=value`.
    """
    found = []
    for name in folder.names():
        if name[0] not in "._":
            place = folder.get_subfolder(name)
            found += data_files(place) if "=" in name else [place.location]
    return found


def rows_of_files(folder: Folder, form: str = "parquet") -> dict[str, int]:
    """Return the files that Spark wrote into a folder, with the row counts of their footers."""
    return {file: folder.storage.rows(file, form) for file in data_files(folder)}
