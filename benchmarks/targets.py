"""What the suite's numbers must stay under."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.figures import Spread, ratios
from benchmarks.results import Results


@dataclass(frozen=True, slots=True)
class Target:
    """One contestant takes at most so many times as much as another one, or as the best of some."""

    text: str
    scenario: str
    mine: str
    theirs: tuple[str, ...]
    at_most: float
    figure: Literal["seconds", "peak_mb", "cpu_seconds", "other_windows"] = "seconds"
    """`other_windows`: one that is not the first. `cpu_seconds`: those of clusters do not count."""

    def measured(self, results: Results) -> Spread | None:
        """The ratio, round by round; None if one of both has no figures."""
        scenario = results.scenarios.get(self.scenario)
        if scenario is None or self.mine not in scenario.contestants:
            return None
        mine = getattr(scenario.contestants[self.mine], self.figure)
        known = [scenario.contestants[name] for name in self.theirs if name in scenario.contestants]
        others = [figures for each in known if (figures := getattr(each, self.figure))]
        if not mine or not others:
            return None
        return ratios(mine, _best(others))


@dataclass(frozen=True, slots=True)
class Limit:
    """A number that a contestant or a probe stays under."""

    text: str
    place: tuple[str, str]
    """Scenario and contestant, or probe and figure."""
    at_most: float
    unit: str

    def measured(self, results: Results) -> Spread | None:
        """The values; None if there are none."""
        name, which = self.place
        if name in results.probes:
            values = results.probes[name].get(which)
            return Spread.of(values) if values else None
        scenario = results.scenarios.get(name)
        times = scenario.contestants.get(which) if scenario else None
        return Spread.of(times.seconds) if times and times.seconds else None


def _best(others: Sequence[Sequence[float]]) -> list[float]:
    """The fastest in each round."""
    return [min(each) for each in zip(*others, strict=False)]


_SQLMESH = ("sqlmesh", "sqlmesh-batch-1")
_PLAIN = ("plain-loop", "plain-pass")

_CATCH_UP = (
    Target("batched ≤ 1.05 × the plain single pass", "A", "dagster-batched", ("plain-pass",), 1.05),
    Target("batched never slower than SQLMesh's best", "A", "dagster-batched", _SQLMESH, 1.0),
    Target("window by window ≤ 1.1 × the plain loop", "A", "dagster", ("plain-loop",), 1.1),
    Target("1.3 × faster than SQLMesh, batch 1", "A", "dagster", ("sqlmesh-batch-1",), 1 / 1.3),
    Target("1.3 × faster than dbt", "A", "dagster", ("dbt",), 1 / 1.3),
)

_ICEBERG_LOOP, _ICEBERG_PASS = ("plain-iceberg-loop",), ("plain-iceberg-pass",)
_OF_ICEBERG = (
    Target("Iceberg, batched ≤ 1.05 × plain", "A", "dagster-iceberg-batched", _ICEBERG_PASS, 1.05),
    Target("Iceberg, by window ≤ the plain loop", "A", "dagster-iceberg", _ICEBERG_LOOP, 1.0),
    Target(
        "Iceberg, batched ≤ 1.05 × plain",
        *("C Iceberg", "dagster-iceberg-batched", _ICEBERG_PASS, 1.05),
    ),
    Target(
        "Iceberg, by window ≤ the plain loop", "C Iceberg", "dagster-iceberg", _ICEBERG_LOOP, 1.0
    ),
    Target("Iceberg, one more day ≤ plain", "D", "logdriven-iceberg", _ICEBERG_LOOP, 1.0),
)


def _alike(target: Target) -> Target:
    """The same over contestants that have the JVM options of ours."""
    theirs = tuple(f"{name}-alike" for name in target.theirs)
    return replace(target, text=f"{target.text}, with our JVM options", theirs=theirs)


TARGETS: tuple[Target | Limit, ...] = (
    *_CATCH_UP,
    *map(_alike, _CATCH_UP),
    Target("one more day, warm: 3 × faster than SQLMesh", "D", "logdriven-warm", _SQLMESH, 1 / 3),
    Target("one more day, warm: 3 × faster than dbt", "D", "logdriven-warm", ("dbt",), 1 / 3),
    Target("one more day, cold: faster than SQLMesh", "D", "logdriven", _SQLMESH, 1.0),
    Target("one more day, cold: faster than dbt", "D", "logdriven", ("dbt",), 1.0),
    Target("one more day, cold ≤ 0.45 × plain", "D", "logdriven", _PLAIN, 0.45),
    *_OF_ICEBERG,
    Limit("nothing to do ≤ 1.5 s", ("E", "logdriven"), 1.5, "s"),
    Target("nothing to do: 4 × faster than SQLMesh", "E", "logdriven", _SQLMESH, 1 / 4),
    Target("nothing to do: 4 × faster than dbt", "E", "logdriven", ("dbt",), 1 / 4),
    Target(
        "PostgreSQL, batched ≤ 0.8 × the plain loop",
        *("F PostgreSQL", "logdriven-jdbc-batched", ("plain-loop",), 0.8),
    ),
    Limit("a window ≤ 60 ms over a bare write", ("G", "overhead_ms"), 60, "ms"),
    Limit("a click, warm: materialized ≤ 3 s", ("J", "materialized_ms"), 3000, "ms"),
    Limit("source counts ≤ 5 % of the write", ("H", "source_counts_percent"), 5, "%"),
    Limit("a tick over 10 M attempts ≤ 1 s", ("K", "tick_ms"), 1000, "ms"),
    Limit("metrics over 10 M attempts ≤ 100 ms", ("K", "metrics_ms"), 100, "ms"),
    Limit("1,000 tables load in ≤ 1.5 × the time", ("L", "seconds_ratio"), 1.5, "×"),
    Limit("1,000 tables load in ≤ 1.5 × the memory", ("L", "megabytes_ratio"), 1.5, "×"),
    Limit("10,000 local files: a list ≤ 0.5 × the paths", ("M", "list_ratio"), 0.5, "×"),
    Limit("100,000 files planned in ≤ 30 s", ("M", "planned_s"), 30, "s"),
    Limit("a window on S3, less its requests, ≤ 1.2 × the local one", ("N", "ratio"), 1.2, "×"),
    Limit("reporting a window to OpenLineage ≤ 5 ms", ("O", "openlineage_ms"), 5, "ms"),
    Limit("a window as spans of OpenTelemetry ≤ 5 ms", ("O", "opentelemetry_ms"), 5, "ms"),
    Limit("a chain ≤ 1.2 × its pieces", ("R", "windows_ratio"), 1.2, "×"),
    Limit("a chain with a small table ≤ 1.2 × its pieces", ("R", "whole_ratio"), 1.2, "×"),
    Limit("a window's log ≤ 5 ms, PostgreSQL, 4 workers", ("P", "window_ms"), 5, "ms"),
    Limit("a tick over many tables ≤ 1 s", ("P", "tick_ms"), 1000, "ms"),
    Limit("memory of a daemon ≤ 1 GB", ("P", "daemon_mb"), 1024, "MB"),
    Limit("many tables load in ≤ 1.3 × the time", ("P", "loading_ratio"), 1.3, "×"),
    Limit("reporting a window to Dagster ≤ 3 ms, SQLite", ("Q", "sqlite_pass_ms"), 3, "ms"),
    Limit("reporting a window to Dagster ≤ 3 ms, PostgreSQL", ("Q", "postgresql_pass_ms"), 3, "ms"),
    Limit("a window by the mirror ≤ 3 ms, SQLite", ("Q", "sqlite_mirror_ms"), 3, "ms"),
    Limit("a window by the mirror ≤ 3 ms, PostgreSQL", ("Q", "postgresql_mirror_ms"), 3, "ms"),
    Limit("a window ≤ 20 ms more on a server of ours", ("S", "own_more_ms"), 20, "ms"),
    Limit("a window ≤ 20 ms more on an external server", ("S", "foreign_more_ms"), 20, "ms"),
    Limit("rules: windows in one pass ≤ 0.8 × one by one", ("U", "ratio"), 0.8, "×"),
    Target("Sail, one more day ≤ 0.2 × plain", "D", "logdriven-sail", ("plain-loop",), 0.2),
    Target("Sail, 30 windows ≤ 0.2 × the plain loop", "A", "logdriven-sail", ("plain-loop",), 0.2),
    Target(
        "Sail, 365 windows ≤ 0.15 × the loop",
        *("C files", "logdriven-sail", ("plain-loop",), 0.15),
    ),
    Target(
        "Sail, 365 windows in one pass ≤ 0.15 × the loop",
        *("C files", "logdriven-sail-batched", ("plain-loop",), 0.15),
    ),
    Target(
        "Sail, memory ≤ a third of the plain loop's",
        "A",
        "logdriven-sail",
        ("plain-loop",),
        1 / 3,
        "peak_mb",
    ),
    Target("two workers ≤ 1.2 × local[2]", "I", "logdriven-standalone", ("logdriven",), 1.2),
    Target(
        "two workers ≤ 1.2 × local[2], warm servers",
        "I",
        "logdriven-standalone-warm",
        ("logdriven-warm",),
        1.2,
    ),
    Target(
        "a window of 5 M rows on two executors ≤ 1 / 1.7 of one core",
        "T",
        "logdriven-standalone",
        ("logdriven-one-core",),
        1 / 1.7,
        "other_windows",
    ),
    Target(
        "the driver's work with two executors ≤ 1.1 × with one",
        "T",
        "logdriven-standalone",
        ("logdriven-one-worker",),
        1.1,
        "cpu_seconds",
    ),
)
