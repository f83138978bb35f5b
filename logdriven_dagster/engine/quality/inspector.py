"""Detection of rows that violate quality rules while they are written.

The rules take one pass: each becomes a boolean column, one `observe` counts violations and keeps
the ids of the first rows, and a filter passes good rows to the writer. The rows are staged as
Parquet files first, so that the source is not read again, if a rule evaluates all rows together
(queries, Python), if they are needed twice (`keep_rejected`), or if several windows are counted.
Spark before 4.2 needs that, too: it has no aggregate for the first ids of bad rows that does not
hold all of them, and its servers may not report the results of an `observe`. Source: Sharp ETL,
QualityCheck, which reads the source again for each rule.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import sha256
from operator import and_, or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from logdriven_dagster.config.models.quality import ROWS, QualityConfig, Rule
from logdriven_dagster.engine.quality.first_ids import first_of_several, takes_first_of_several
from logdriven_dagster.engine.quality.flags import Flags, column, flag, true_of, windows_of
from logdriven_dagster.engine.queries.transforms import arguments, load_transform
from logdriven_dagster.engine.queries.views import Views
from logdriven_dagster.engine.queries.window_index import WINDOW_INDEX
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.targets.staged_files import stage_files, staged_frame
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.quality import KEPT_IDS, QualityReport, RuleResult
from logdriven_dagster.model.runs import WindowRun, combine_runs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FAILED_RULES = "failed_rules"
"""The column of rejected rows with the names of the rules of level error that they violate."""

_OF_ALL_ROWS = frozenset({"query", "python"})
_ALL_FIELDS = {"ignoreNullFields": "false"}


Open: TypeAlias = Callable[[str], BinaryIO]
"""Function that opens a written file for reading, in any file system."""


@dataclass
class Inspected:
    """Rows that are evaluated when the first action reads the good ones."""

    good: "DataFrame"
    rejected: "DataFrame"
    """Rejected rows. Write them only if the rows are staged: otherwise the source is read again."""
    found: Callable[[], Mapping[int, Mapping[str, Any]]]
    """Counts and first ids of each rule by window; windows without rows are omitted."""
    rules: tuple[Rule, ...]
    quality: QualityConfig
    kept: StagedRows | None = None
    """The staged rows, if they were staged before evaluation."""

    def reports(self, staged: Sequence[StagedRows], opened: Open) -> list[QualityReport]:
        """Return the quality report of each window, after its good rows were staged."""
        found = self.found()
        return [self._report(found.get(n, {}), rows.files, opened) for n, rows in enumerate(staged)]

    def _report(
        self, found: Mapping[str, Any], good_files: Sequence[str], opened: Open
    ) -> QualityReport:
        results = tuple(
            RuleResult(
                rule.name,
                rule.column,
                rule.level,
                rule.blocking,
                found.get(f"count_{n}", 0),
                tuple(json.loads(found.get(f"ids_{n}") or "[]")),
            )
            for n, rule in enumerate(self.rules)
        )
        wants_hash = self.quality.keep_rejected or self.quality.min_pass is not None
        return QualityReport(
            found.get("checked", 0),
            found.get("rejected", 0),
            results,
            self.quality.min_pass,
            _hash(good_files, opened) if wants_hash and good_files else None,
        )


@dataclass(frozen=True)
class Inspector:
    """Evaluation of a step's rows: the rules, and the resources that they need."""

    quality: QualityConfig
    rules: tuple[Rule, ...]
    views: Views
    values: Callable[[], dict[str, Callable[[], Any]]]
    """Values for the parameters of a Python rule, in addition to `rows`."""
    code: Path
    """The folder of the table's file."""
    opened: Open
    staging: Folder
    """Staging folder for rows that are needed more than once."""

    @contextmanager
    def inspect(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> "Iterator[Inspected]":
        """Provide the rows of a step, divided into good and rejected ones, until all are written.

        Rows of several windows have WINDOW_INDEX, as do the good and rejected ones. Raises
        TerminalStepError if a column of the rules is missing.
        """
        from pyspark.sql import Observation

        names, folders = frame.drop(WINDOW_INDEX).columns, list[str]()
        self._refuse_unknown_columns(names)
        run = combine_runs(runs)
        flagged = Flags(self.quality, self.rules, self.views).add_flags(frame)
        if not self._needs_staging(len(runs)) and takes_first_of_several(frame.sparkSession):
            observation = Observation()
            observed = flagged.observe(observation, *self._counts(with_ids=True))
            yield self._split_rows(observed, names, lambda: {0: observation.get})
            return
        try:
            (kept,) = stage_files(flagged, self.staging, [run.for_step(f"{run.step_id}__rows")])
            folders.append(kept.location)
            flagged = staged_frame(frame.sparkSession, [kept])
            flagged = self._flag_staged_rows(flagged, names, run, folders)
            divided = self._split_rows(flagged, names, lambda: self._count_staged(flagged, run))
            yield replace(divided, kept=kept)
        finally:
            for folder in folders:
                self.staging.storage.remove(folder)

    def _needs_staging(self, windows: int) -> bool:
        """Return whether rows of this many windows are read more than once, or window by window."""
        whole = any(rule.kind in _OF_ALL_ROWS for rule in self.rules)
        return whole or self.quality.keep_rejected or windows > 1

    def _refuse_unknown_columns(self, names: Sequence[str]) -> None:
        there = {name.lower() for name in names}
        ordered = [name for name, _ in self.quality.order]
        wanted = [*self.quality.id, *ordered, *(c for rule in self.rules for c in rule.columns)]
        if missing := [name for name in dict.fromkeys(wanted) if name.lower() not in there]:
            problem = f"the result has no column {', '.join(missing)}; it has"
            raise TerminalStepError(f"quality: {problem} {', '.join(names)}")

    def _flag_staged_rows(
        self, frame: "DataFrame", names: list[str], run: WindowRun, folders: list[str]
    ) -> "DataFrame":
        """Return the staged rows with the columns of rules that evaluate all of them together."""
        from pyspark.sql import DataFrame

        rows = frame.select(*(column(name) for name in names))
        duplicates = [flag(n) for n, rule in enumerate(self.rules) if rule.kind == "duplicates"]
        if duplicates:
            rows = frame.where(~column(duplicates[0])).select(*(column(name) for name in names))
        self.views.register(ROWS, rows)
        for n, rule in enumerate(self.rules):
            if rule.kind not in _OF_ALL_ROWS:
                continue
            answer = self._evaluate_rule(rule, rows, run)
            if isinstance(answer, DataFrame):
                frame = self._with_ids(frame, n, answer, run, folders)
            else:
                frame = frame.withColumn(flag(n), true_of(answer))
            for name in duplicates:
                frame = frame.withColumn(flag(n), column(flag(n)) & ~column(name))
        return frame

    def _evaluate_rule(self, rule: Rule, rows: "DataFrame", run: WindowRun) -> "DataFrame | Column":
        """Return the result of a query or function: the ids of bad rows, or a condition."""
        from pyspark.sql import Column, DataFrame

        if rule.kind == "query":
            return self.views.query(rule.text)
        function = load_transform(rows.sparkSession, rule.text, self.code)
        known = self.values() | {ROWS: lambda: rows, "column": lambda: rule.column}
        given = arguments(rule.text, function, known)
        label = f"{run.label}: {rule.name}"
        answer = run_action(rows.sparkSession, label, lambda: function(**given))
        if not isinstance(answer, (Column, DataFrame)):
            kind = type(answer).__name__
            raise TerminalStepError(
                f"quality: {rule.text} returned {kind}; it must return a boolean Column or "
                "a DataFrame"
            )
        return answer

    def _with_ids(
        self, frame: "DataFrame", n: int, ids: "DataFrame", run: WindowRun, folders: list[str]
    ) -> "DataFrame":
        """Flag the rows with these ids, which are staged, since a repeated query may differ."""
        there = {name.lower() for name in ids.columns}
        if missing := [name for name in self.quality.id if name.lower() not in there]:
            problem = f"{self.rules[n].name}: the ids have no column {', '.join(missing)}"
            raise TerminalStepError(f"quality: {problem}")
        keys = {name: f"{flag(n)}_{name}" for name in self.quality.id}
        ids = ids.select(*(column(name).alias(key) for name, key in keys.items())).distinct()
        (staged,) = stage_files(ids, self.staging, [run.for_step(f"{run.step_id}__rule_{n}")])
        folders.append(staged.location)
        ids = staged_frame(ids.sparkSession, [staged])
        same = reduce(and_, [column(a).eqNullSafe(column(b)) for a, b in keys.items()])
        joined = frame.join(ids.withColumn(flag(n), sf.lit(True)), same, "left")  # noqa: FBT003
        return joined.withColumn(flag(n), true_of(column(flag(n)))).drop(*keys.values())

    def _split_rows(
        self,
        flagged: "DataFrame",
        names: list[str],
        found: Callable[[], Mapping[int, Mapping[str, Any]]],
    ) -> Inspected:
        bad, columns = self._is_bad(), [column(name) for name in [*names, *windows_of(flagged)]]
        errors = [(flag(n), r.name) for n, r in enumerate(self.rules) if r.level == "error"]
        failed = sf.concat_ws(", ", *(sf.when(column(f), sf.lit(name)) for f, name in errors))
        return Inspected(
            flagged.where(~bad).select(*columns),
            flagged.where(bad).select(*columns, failed.alias(FAILED_RULES)),
            found,
            self.rules,
            self.quality,
        )

    def _is_bad(self) -> "Column":
        errors = [column(flag(n)) for n, rule in enumerate(self.rules) if rule.level == "error"]
        return reduce(or_, errors, sf.lit(False))  # noqa: FBT003 - a literal

    def _count_staged(self, staged: "DataFrame", run: WindowRun) -> Mapping[int, Mapping[str, Any]]:
        """Return the counts of staged rows, reading only the columns of rules and ids."""
        apart = bool(self.quality.id) and not takes_first_of_several(staged.sparkSession)
        by = windows_of(staged)
        totals = staged.groupBy(*by).agg(*self._counts(with_ids=not apart))
        rows = run_action(staged.sparkSession, f"{run.label}: rules", totals.collect)
        found = {row[WINDOW_INDEX] if by else 0: row.asDict() for row in rows}
        if apart:
            for n, rule, ids in self._ids(staged, found, run):
                found[n][f"ids_{rule}"] = ids
        return found

    def _ids(
        self, staged: "DataFrame", found: Mapping[int, Mapping[str, Any]], run: WindowRun
    ) -> Iterator[tuple[int, int, str]]:
        """Yield window, rule and first ids of each violated rule."""
        from pyspark.sql import Window

        key = sf.struct(*map(column, self.quality.id)).alias("id")
        by = windows_of(staged)
        broken = [
            n for n in range(len(self.rules)) if any(each[f"count_{n}"] for each in found.values())
        ]
        each = [
            staged.where(column(flag(n))).select(sf.lit(n).alias("rule"), key, *by) for n in broken
        ]
        if not each:
            return
        bad = reduce(lambda one, other: one.unionAll(other), each)
        place = sf.row_number().over(Window.partitionBy("rule", *by).orderBy("id"))
        first = bad.withColumn("place", place).where(sf.col("place") <= KEPT_IDS)
        ids = sf.to_json(sf.array_sort(sf.collect_list("id")), _ALL_FIELDS)
        asked = first.groupBy("rule", *by).agg(ids.alias("ids"))
        for row in run_action(staged.sparkSession, f"{run.label}: ids of bad rows", asked.collect):
            yield row[WINDOW_INDEX] if by else 0, row["rule"], row["ids"]

    def _counts(self, *, with_ids: bool) -> "list[Column]":
        counts = [
            sf.count(sf.lit(1)).alias("checked"),
            sf.count_if(self._is_bad()).alias("rejected"),
        ]
        key = sf.struct(*map(column, self.quality.id)) if self.quality.id and with_ids else None
        for n in range(len(self.rules)):
            counts.append(sf.count_if(column(flag(n))).alias(f"count_{n}"))
            if key is not None:
                first = first_of_several(key, sf.when(column(flag(n)), key), KEPT_IDS)
                counts.append(sf.to_json(first, _ALL_FIELDS).alias(f"ids_{n}"))
        return counts


def _hash(files: Sequence[str], opened: Open) -> str:
    """Hash the content of all files, independent of names. Source: BDRE, hash of the good file."""
    return sha256(b"".join(sorted(_digest(opened(file)) for file in files))).hexdigest()


def _digest(stream: BinaryIO) -> bytes:
    with stream:
        return sha256(stream.read()).digest()
