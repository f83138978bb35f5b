"""Folders that jobs stage rows in: their names, and what Spark writes there."""

import re

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.storage.locations import Folder, folder_at, name_of

UPKEEP = 0
"""The job that stages rows which are there already; the run log counts from 1."""

STAGED = re.compile(r"(\d+)-.+")
"""The names of staging folders, which begin with the job."""

STRETCH = "__stretch"
"""What is in the names of folders that hold one folder for each window of a stretch."""

JOB = "_job"
"""The column by which Spark divides a stretch: the jobs of its windows, which no file holds."""

PARTITION = "logdriven_partition"
"""The column by which Spark divides rows among a table's own partitions; no file holds it."""

_OF_A_JOB = re.compile(rf"{JOB}=(\d+)")

ONLY_COMMITTED = {
    # Version 2 moves the files of a task before the job is known to be done, so that those of tasks
    # which failed or ran twice may stay; the folder is what says which files there are.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
"""Options of every writer of staged files."""


def staging_of(project: Project, table: str) -> Folder:
    """Return the folder of a table's rows that are on their way."""
    return folder_at(f"{project.staging}/{table}", project.storage)


def staging_folder(parent: Folder, job_id: int, what: str) -> Folder:
    """Return a new empty folder below `parent` for what a job writes."""
    return parent.new(f"{job_id}-{what}")


def folder_in_stretch(folder: Folder, job_id: int) -> Folder:
    """Return the folder of one window, which is there if the window has rows."""
    return folder.within(f"{JOB}={job_id}")


def folder_of_pass(folder: str) -> str:
    """Return the folder of all windows that were staged in one pass with that of a folder."""
    parent, _, name = folder.rpartition("/")
    return parent if _OF_A_JOB.fullmatch(name) else folder


def staged_folders(parent: Folder) -> dict[str, int]:
    """Return the staging folders below `parent`, each with the number of its job."""
    found: dict[str, int] = {}
    for name in parent.names():
        if match := STAGED.fullmatch(name):
            folder = parent.within(name)
            inside = folder.names() if STRETCH in name else []
            jobs = [int(each[1]) for each in map(_OF_A_JOB.fullmatch, inside) if each]
            found |= {folder_in_stretch(folder, job).location: job for job in jobs}
            if not jobs:
                found[folder.location] = int(match[1])
    return found


def is_staging_folder(folder: str) -> bool:
    """Whether a folder is one that a job stages the rows of a window in."""
    name = name_of(folder)
    return bool(STAGED.fullmatch(name) or _OF_A_JOB.fullmatch(name))


def staging_name(folder: str) -> str:
    """Return the name of a staging folder, behind that of the stretch that it is a part of."""
    parent, _, name = folder.rpartition("/")
    return f"{name_of(parent)}/{name}" if _OF_A_JOB.fullmatch(name) else name


def data_files(folder: Folder) -> list[str]:
    """The files that Spark wrote into a folder; the names of others begin with `_` or `.`.

    Files of rows that Spark divided by a column's values are in folders `column=value` in there.
    """
    found = []
    for name in folder.names():
        if name[0] not in "._":
            place = folder.within(name)
            found += data_files(place) if "=" in name else [place.location]
    return found


def rows_of_files(folder: Folder, form: str = "parquet") -> dict[str, int]:
    """Return each file that Spark wrote into a folder with its rows, as its footer tells them."""
    return {file: folder.storage.rows(file, form) for file in data_files(folder)}
