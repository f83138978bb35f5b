"""Jobs and tables from Kettle's configuration tables and its transformations.

Kettle runs a table once a day, as a whole, after its upstream tables are complete; this becomes a
table of type `full`. An untranslatable part becomes a step that fails with the reason, in a table
or job without a schedule (`release_state: offline`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.plugins.importers import naming
from logdriven_dagster.plugins.importers.database.reflection import open_database
from logdriven_dagster.plugins.importers.drafts import (
    DraftFile,
    Translation,
    Values,
    job_path,
    table_path,
)
from logdriven_dagster.plugins.importers.kettle.folder import import_folder
from logdriven_dagster.plugins.importers.kettle.request import KettleRequest
from logdriven_dagster.plugins.importers.kettle.steps import JOB_VARIABLE, Translator
from logdriven_dagster.plugins.importers.kettle.tables import (
    Configuration,
    Job,
    KettleDependency,
    Transformation,
    read_configuration,
)

_FOREVER = "Kettle waits for it forever; here it counts as complete"


def import_kettle(project: Project, wish: KettleRequest) -> Translation:
    """Return drafts of all jobs and tables. Raises UsageError for an unreadable configuration."""
    if wish.repository is not None and not wish.repository.is_dir():
        raise UsageError(f"--repository: {wish.repository} is not a folder")
    if wish.connection is None:
        return _import_files(project, wish)
    translation = Translation()
    engine = open_database(project.connection(wish.connection))
    found = read_configuration(engine, wish.schema, translation)
    steps = Translator(project, wish.connections, wish.repository, translation)
    work = _KettleImport(project, wish, found, steps, translation)
    work.standard()
    work.maintenance()
    translation.names = work.names
    return translation


def _import_files(project: Project, wish: KettleRequest) -> Translation:
    if wish.repository is None:
        raise UsageError(
            "--connection or --repository is required: the tables or the files to read"
        )
    return import_folder(project, wish)


@dataclass(slots=True)
class _KettleImport:
    project: Project
    wish: KettleRequest
    found: Configuration
    steps: Translator
    translation: Translation
    names: dict[str, str] = field(default_factory=dict)
    """Table name of each Kettle table."""
    of_their_jobs: set[str] = field(default_factory=set)
    """Kettle tables whose SQL uses the name of the job and that several jobs run."""
    taken: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)

    def standard(self) -> None:
        """Draft the standard jobs and their tables."""
        jobs = self._jobs("STANDARD")
        rows = self._rows_of(self.found.standard, jobs)
        by_table: dict[str, list[Transformation]] = {}
        for row in rows:
            by_table.setdefault(row.table, []).append(row)
        for name in by_table:
            self._name(name)
        for name, own in by_table.items():
            self._table(name, own)
        self._report_unused_relations(set(by_table))
        for job in jobs.values():
            self._standard_job(job, [row for row in rows if row.job == job.name])

    def maintenance(self) -> None:
        """Draft the maintenance jobs and their steps."""
        jobs = self._jobs("MAINTENANCE")
        rows = self._rows_of(self.found.maintenance, jobs)
        for job in jobs.values():
            own = [row for row in rows if row.job == job.name]
            self._maintenance_job(job, sorted(own, key=lambda row: row.exec_order))

    def _jobs(self, kind: str) -> dict[str, Job]:
        jobs: dict[str, Job] = {}
        for job in self.found.jobs:
            if job.kind not in ("STANDARD", "MAINTENANCE"):
                if kind == "STANDARD":
                    self.translation.leave(job.place, job.name, f"unknown kjb_type {job.kind}")
            elif job.kind == kind and job.name in jobs:
                first = jobs[job.name].place
                self.translation.leave(job.place, job.name, f"the job is defined twice: {first}")
            elif job.kind == kind:
                jobs[job.name] = job
        return jobs

    def _rows_of(self, rows: list[Transformation], jobs: Mapping[str, Job]) -> list[Transformation]:
        for row in rows:
            if row.job not in jobs:
                reason = f"t_etl_kjb_cfg has no job {row.job} of the required type"
                self.translation.leave(row.place, row.name, reason)
        return [row for row in rows if row.job in jobs]

    def _name(self, table: str) -> None:
        layer = "" if "." in table else self.wish.layer
        name = naming.distinct(naming.table_name(table, layer), self.taken)
        self.taken.add(name.lower())
        self.names[table] = name
        if name not in (table, f"{self.wish.layer}.{table}"):
            self.translation.note(f"table {table}", "its name", f"the table is called {name}")

    def _table(self, table: str, rows: list[Transformation]) -> None:
        ranked = sorted(rows, key=lambda row: (not self._runs(row), not row.enabled))
        first = ranked[0]
        for row in rows:
            if (row.name, row.path) != (first.name, first.path):
                reason = (
                    f"{table} is already written by {first.name}; only one transformation can "
                    "write a table"
                )
                self.translation.leave(row.place, row.name, reason)
        name = self.names[table]
        made = self.steps.table_steps(first, self._jobs_of(table))
        if made.of_its_job:
            self.of_their_jobs.add(table)
        values: Values = {"table": name, "description": f"Kettle: {first.path}/{first.name}"}
        if not self._runs(first):
            values["enabled"] = False
        if made.incomplete:
            values["release_state"] = "offline"
        values["incremental_type"] = "full"
        if self.wish.period or self.project.config.defaults.period is None:
            values["period"] = self.wish.period or "1 day"
        values["default_start"] = self.wish.first_start(self.project, name)
        if depends := self._depends_on(table, first):
            values["depends_on"] = depends
        if made.variables:
            values["variables"] = dict(made.variables)
        values["steps"] = made.steps
        comments = {"steps.load": made.comments} if made.comments else {}
        origin = f"Made by `logdriven import-kettle` from {first.place}: {first.name}."
        self.translation.drafts.append(DraftFile(table_path(name), values, origin, comments))

    def _runs(self, row: Transformation) -> bool:
        """Return True if Kettle runs a transformation: it and its job are enabled."""
        return row.enabled and any(
            job.enabled for job in self.found.jobs if job.name == row.job and job.kind == "STANDARD"
        )

    def _jobs_of(self, table: str) -> tuple[str, ...]:
        """Return the jobs that run a table, or would run it if it were enabled."""
        rows = [row for row in self.found.standard if row.table == table]
        enabled = [row for row in rows if row.enabled]
        known = {job.name for job in self.found.jobs}
        return tuple(dict.fromkeys(row.job for row in enabled or rows if row.job in known))

    def _depends_on(self, table: str, row: Transformation) -> list[Values]:
        own = [relation for relation in self.found.relations if relation.to == table]
        if not own:
            reason = (
                "Kettle never runs a table without a row in t_etl_std_dep_cfg; here it "
                "runs each day without upstreams"
            )
            self.translation.note(row.place, table, reason)
        depends: dict[str, Values] = {}
        for relation in own:
            dependency = self._dependency(relation)
            depends.setdefault(dependency["table"], dependency)
        return list(depends.values())

    def _dependency(self, relation: KettleDependency) -> Values:
        """Return a dependency without reading, since Kettle's SQL reads from databases."""
        name = self.names.get(relation.upstream)
        if name is not None and relation.managed:
            return {"table": name, "read": "none"}
        if name is not None:
            return {"table": name, "window": "none", "read": "none"}
        if relation.managed:
            reason = f"{relation.upstream} has no transformation: {_FOREVER}"
            self.translation.leave(relation.place, relation.to, reason)
        layer = "" if "." in relation.upstream else self.wish.layer
        outside = naming.table_name(relation.upstream, layer)
        return {"table": outside, "managed": False}

    def _report_unused_relations(self, tables: set[str]) -> None:
        for relation in self.found.relations:
            if relation.to not in tables:
                reason = f"no transformation writes {relation.to}"
                self.translation.leave(
                    relation.place, f"{relation.upstream} → {relation.to}", reason
                )

    def _job_values(self, job: Job) -> Values:
        name = naming.step_name(job.name, self.jobs | self.taken)
        self.jobs.add(name.lower())
        if name != job.name:
            self.translation.note(job.place, job.name, f"the job is called {name}")
        values: Values = {"job": name}
        if job.kind == "MAINTENANCE":
            values["type"] = "maintenance"
        if not job.enabled:
            values["enabled"] = False
        # Kettle counts attempts, and the guide's job retries immediately after any error.
        values["retries"] = max(job.attempts - 1, 0)
        return values

    def _standard_job(self, job: Job, rows: list[Transformation]) -> None:
        tables: dict[str, None] = {}
        for row in rows:
            enabled = [r for r in self.found.standard if r.table == row.table and r.enabled]
            if not row.enabled and enabled:
                reason = "disabled in this job only: the table is left out of the job"
                self.translation.note(row.place, row.table, reason)
            else:
                tables[self.names[row.table]] = None
        if not tables:
            self.translation.leave(job.place, job.name, "the job has no tables")
            return
        values = self._job_values(job)
        if any(row.table in self.of_their_jobs for row in rows):
            values["parameters"] = {JOB_VARIABLE: job.name}
        values["tables"] = list(tables)
        origin = f"Made by `logdriven import-kettle` from {job.place}: {job.name}."
        self.translation.drafts.append(DraftFile(job_path(values["job"]), values, origin))

    def _maintenance_job(self, job: Job, rows: list[Transformation]) -> None:
        values = self._job_values(job)
        steps: list[Values] = []
        comments: dict[str, list[str]] = {}
        for row in rows:
            taken = {step["step"].lower() for step in steps}
            if any(step["exec_order"] == row.exec_order for step in steps):
                self.translation.leave(row.place, row.name, f"exec_order {row.exec_order} is taken")
                continue
            name = naming.step_name(row.name, taken)
            made = self.steps.maintenance_step(row)
            if made.incomplete and row.enabled:
                values["release_state"] = "offline"
            flag = {} if row.enabled else {"enabled": False}
            steps.append({"exec_order": row.exec_order, "step": name, **flag, **made.steps[0]})
            if made.comments:
                comments[f"steps.{name}"] = list(made.comments)
        if not steps:
            self.translation.note(job.place, job.name, "the job has no steps")
        values["steps"] = steps
        origin = f"Made by `logdriven import-kettle` from {job.place}: {job.name}."
        self.translation.drafts.append(DraftFile(job_path(values["job"]), values, origin, comments))
