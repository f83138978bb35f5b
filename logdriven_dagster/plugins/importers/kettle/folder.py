"""Tables and jobs from a folder of `.ktr` and `.kjb` files, without the guide's tables.

Each output of a transformation becomes a table, and each SQL entry of a job. The hops of a job
become `depends_on` of its tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.plugins.importers import naming
from logdriven_dagster.plugins.importers.drafts import (
    DraftFile,
    Translation,
    UntranslatableError,
    Values,
    job_path,
    table_path,
)
from logdriven_dagster.plugins.importers.kettle import ktr
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.jobs import (
    SILENT,
    Entry,
    KettleJob,
    Outcome,
    read_job,
)
from logdriven_dagster.plugins.importers.kettle.request import KettleRequest
from logdriven_dagster.plugins.importers.kettle.steps import KtrStep, Translator
from logdriven_dagster.plugins.importers.kettle.tables import Transformation

_DAILY, _NOT_REPEATED = "2", "0"


def import_folder(project: Project, wish: KettleRequest) -> Translation:
    """Return drafts of all transformations and jobs below `--repository`."""
    assert wish.repository is not None
    translation = Translation()
    steps = Translator(project, wish.connections, wish.repository, translation)
    work = _FolderImport(project, wish, wish.repository, steps, translation)
    work.transformations()
    work.jobs()
    if not work.tables:
        raise UsageError(f"--repository: {wish.repository} has no .ktr and .kjb files")
    work.write()
    return translation


@dataclass(slots=True)
class _Table:
    """A table to be written."""

    name: str
    place: str
    made: KtrStep
    depends: dict[str, Outcome] = field(default_factory=dict)
    job: str = ""
    """The job whose hops it has."""
    delay: int = 0
    is_offline: bool = False


@dataclass(slots=True)
class _FolderImport:
    project: Project
    wish: KettleRequest
    root: Path
    steps: Translator
    translation: Translation
    tables: dict[str, _Table] = field(default_factory=dict)
    of_files: dict[Path, list[str]] = field(default_factory=dict)
    """The tables of each transformation."""
    read: dict[Path, KettleJob] = field(default_factory=dict)
    taken_jobs: set[str] = field(default_factory=set)

    def transformations(self) -> None:
        """Translate each output of each transformation."""
        for path in sorted(self.root.rglob("*.ktr")):
            place = str(path.relative_to(self.root))
            row = Transformation(place, "", path.stem, str(path.parent), path.stem, enabled=True)
            for name, made in self._translate(path, row):
                self._add(path, name, place, made)

    def _translate(self, path: Path, row: Transformation) -> list[tuple[str, KtrStep]]:
        try:
            found = ktr.read_ktr(path)
        except UntranslatableError as error:
            return [(path.stem, self.steps.stub(row, str(error)))]
        outputs: list[ktr.Flow | ktr.Refused] = [
            *found.flows,
            *(each for each in found.refused if each.is_output),
        ]
        for each in found.refused:
            if not each.is_output and outputs:
                self.translation.leave(row.place, each.step, each.reason)
        if len(outputs) > 1 and found.scripts:
            return [(path.stem, self.steps.stub(row, "it has scripts and several outputs"))]
        if not outputs and found.refused:
            reason = "; ".join(each.reason for each in found.refused)
            return [(path.stem, self.steps.stub(row, reason))]
        if not outputs:
            return [(path.stem, self.steps.scripts_only(row, found))]
        return [self._load(row, found, each, alone=len(outputs) == 1) for each in outputs]

    def _load(
        self, row: Transformation, found: ktr.Ktr, each: ktr.Flow | ktr.Refused, *, alone: bool
    ) -> tuple[str, KtrStep]:
        """Return the name of an output's table, and its steps."""
        step = each.step if isinstance(each, ktr.Refused) else each.output.step
        name = row.name if alone else f"{row.name} {step}"
        if isinstance(each, ktr.Refused):
            return name, self.steps.stub(row, f"{step}: {each.reason}")
        try:
            return name, self.steps.load(row, found, each, [])
        except UntranslatableError as error:
            return name, self.steps.stub(row, f"{step}: {error}")

    def _add(self, path: Path, name: str, place: str, made: KtrStep) -> str:
        text = naming.table_name(naming.identifier(name), self.wish.layer)
        found = naming.distinct(text, {each.lower() for each in self.tables})
        self.tables[found] = _Table(found, place, made)
        self.of_files.setdefault(path.resolve(), []).append(found)
        return found

    def jobs(self) -> None:
        """Add the order of each job to its tables."""
        for path in sorted(self.root.rglob("*.kjb")):
            try:
                self.read[path.resolve()] = read_job(path)
            except UntranslatableError as error:
                self.translation.leave(str(path.relative_to(self.root)), path.stem, str(error))
        called = set()
        for job in self.read.values():
            for entry in job.entries.values():
                if entry.kind == "JOB":
                    try:
                        called.add(entry.find_file(job.path).resolve())
                    except UntranslatableError:
                        continue
        for path, job in self.read.items():
            if path not in called:
                self._job(job)

    def _job(self, job: KettleJob) -> None:
        place = str(job.path.relative_to(self.root))
        run = _JobRun(self, job, place)
        run.translate()
        names = list(dict.fromkeys(run.names))
        if not names:
            self.translation.leave(place, job.name, "the job runs no tables")
            return
        values: Values = {"job": naming.step_name(job.name, self.taken_jobs)}
        self.taken_jobs.add(values["job"].lower())
        values["description"] = f"Kettle: {job.description or job.name}"
        values["tables"] = names
        schedule = self._schedule(job, place, [self.tables[name] for name in names])
        if schedule is not None:
            values["schedule"] = schedule
        if run.is_incomplete:
            values["release_state"] = "offline"
            for name in names:
                self.tables[name].is_offline = True
        origin = f"Made by `logdriven import-kettle` from {place}."
        self.translation.drafts.append(DraftFile(job_path(values["job"]), values, origin))

    def _schedule(self, job: KettleJob, place: str, tables: list[_Table]) -> str | None:
        start = job.start.element
        kind = read_text(start, "schedulerType") or _NOT_REPEATED
        if read_text(start, "repeat").upper() != "Y" or kind == _NOT_REPEATED:
            reason = "the file does not say when it runs; its tables run once a period"
            self.translation.note(place, job.name, reason)
            return None
        if kind != _DAILY:
            reason = "it runs in intervals, weekly or monthly; set schedule, period and delay"
            self.translation.leave(place, job.name, reason)
            return None
        hour, minute = read_text(start, "hour"), read_text(start, "minutes")
        if not (naming.is_whole(hour) and naming.is_whole(minute)):
            self.translation.leave(place, job.name, f"its time is {hour}:{minute}")
            return None
        for table in tables:
            table.delay = int(hour) * 60 + int(minute)
        return f"{int(minute)} {int(hour)} * * *"

    def write(self) -> None:
        """Add the drafts of the tables."""
        for table in self.tables.values():
            values: Values = {"table": table.name, "description": f"Kettle: {table.place}"}
            if table.made.incomplete or table.is_offline or not table.job:
                values["release_state"] = "offline"
            if not table.job and not table.made.incomplete:
                reason = "no job of the folder runs it; start it by hand"
                self.translation.note(table.place, table.name, reason)
            values["incremental_type"] = "full"
            if self.wish.period or self.project.config.defaults.period is None:
                values["period"] = self.wish.period or "1 day"
            values["default_start"] = self.wish.first_start(self.project, table.name)
            if table.delay:
                values["delay"] = f"{table.delay} min"
            if table.depends:
                values["depends_on"] = [
                    {
                        "table": name,
                        **({} if outcome == "success" else {"condition": outcome}),
                        "read": "none",
                    }
                    for name, outcome in table.depends.items()
                ]
            if table.made.variables:
                values["variables"] = dict(table.made.variables)
            values["steps"] = table.made.steps
            comments = {"steps.load": table.made.comments} if table.made.comments else {}
            origin = f"Made by `logdriven import-kettle` from {table.place}."
            draft = DraftFile(table_path(table.name), values, origin, comments)
            self.translation.drafts.append(draft)

    def add_sql(self, job: KettleJob, entry: Entry, place: str) -> list[str]:
        """Add a table for an SQL entry, and return its name."""
        row = Transformation(place, "", entry.name, place, entry.name, enabled=True)
        made = self.steps.sql_entry(row, entry.element, job.databases)
        return [self._add(job.path, f"{job.name} {entry.name}", place, made)]


@dataclass(slots=True)
class _JobRun:
    """Walk through the entries of a job, in the order in which Kettle runs them."""

    work: _FolderImport
    job: KettleJob
    place: str
    names: list[str] = field(default_factory=list)
    """The tables of the job, in order."""
    is_incomplete: bool = False

    def translate(self, before: Mapping[str, Outcome] | None = None) -> None:
        """Add the tables of all entries; those of the first ones wait for `before`."""
        self._follow(self.job.start, dict(before or {}), {self.job.path})

    def _follow(self, entry: Entry, before: dict[str, Outcome], seen: set[Path]) -> None:
        job, pending = self.job, [(entry, before)]
        done: set[str] = set()
        while pending:
            entry, before = pending.pop(0)
            if entry.name in done:
                self._leave(entry, "it runs once for each hop that leads to it, or in a loop")
                continue
            done.add(entry.name)
            own = self._run(entry, before, seen)
            hops = job.list_hops_from(entry.name)
            if len(hops) > 1 and read_text(entry.element, "parallel").upper() != "Y":
                self._note_order(entry, [hop.end for hop in hops if hop.outcome != "failure"])
            for hop in hops:
                following = self._wait_for(entry, own, before, hop.outcome)
                if following is not None:
                    pending.append((job.entries[hop.end], following))

    def _note_order(self, entry: Entry, ends: list[str]) -> None:
        working = [end for end in ends if self.job.entries[end].kind not in SILENT]
        if len(working) > 1:
            self._leave(
                entry,
                f"{', '.join(working)} run in series; add depends_on where one needs another",
            )

    def _wait_for(
        self, entry: Entry, own: list[str], before: dict[str, Outcome], outcome: Outcome
    ) -> dict[str, Outcome] | None:
        """Return what the entry after a hop waits for; None if it never runs."""
        if not own:
            return None if outcome == "failure" else dict(before)
        if outcome == "failure" and len(own) > 1:
            self._leave(entry, "entries after its failure need any of several tables to fail")
            return None
        return dict.fromkeys(own, outcome)

    def _run(self, entry: Entry, before: dict[str, Outcome], seen: set[Path]) -> list[str]:
        """Return the tables of an entry, after adding what they wait for."""
        if entry.kind in SILENT:
            return []
        try:
            if entry.kind == "TRANS":
                path = entry.find_file(self.job.path).resolve()
                own = self.work.of_files.get(path, [])
                if not own:
                    self._leave(entry, f"{path.name} is not in the folder")
            elif entry.kind == "SQL":
                own = self.work.add_sql(self.job, entry, self.place)
            elif entry.kind == "JOB":
                return self._call(entry, before, seen)
            elif entry.kind == "MAIL":
                self._leave(entry, "an e-mail; use notify and recipients")
                own = []
            else:
                self._leave(entry, f"entries of type {entry.kind} have no counterpart")
                own = []
        except UntranslatableError as error:
            self._leave(entry, str(error))
            return []
        self._claim(entry, own, before)
        return own

    def _claim(self, entry: Entry, own: list[str], before: dict[str, Outcome]) -> None:
        for name in own:
            table = self.work.tables[name]
            if table.job:
                self._leave(entry, f"{name} runs in {table.job} as well; it has the order of that")
                continue
            table.job = self.job.name
            table.depends.update(before)
        self.names += own

    def _call(self, entry: Entry, before: dict[str, Outcome], seen: set[Path]) -> list[str]:
        path = entry.find_file(self.job.path).resolve()
        found = self.work.read.get(path)
        if found is None or path in seen:
            self._leave(entry, f"{path.name} is not in the folder, or runs itself")
            return []
        inner = _JobRun(self.work, found, str(found.path.relative_to(self.work.root)))
        inner._follow(found.start, before, seen | {path})
        self.is_incomplete |= inner.is_incomplete
        self.names += inner.names
        return inner.names

    def _leave(self, entry: Entry, reason: str) -> None:
        self.is_incomplete = True
        self.work.translation.leave(self.place, f"{entry.name} ({entry.kind})", reason)
