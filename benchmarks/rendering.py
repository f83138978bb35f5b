"""`docs/evidence/benchmarks.md`: the results, and what was found."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from benchmarks.figures import Spread, ratios
from benchmarks.pictures import draw_bars
from benchmarks.results import Results, Scenario, Times
from benchmarks.targets import TARGETS, Limit, Target
from logdriven_dagster.engine.spark.settings import JVM_OPTIONS

_BASES = ("plain-pass", "plain-loop", "plain-iceberg-pass", "logdriven", "logdriven-one-core")
"""Whom a scenario's ratios compare with: the first that has times."""

_FINDINGS = Path(__file__).with_name("findings.md")
"""What people make of the numbers."""

_SAIL_SHARE = (
    "Sail: supported SQL only, an estimated 42 % of 690 public queries (Share of public SQL)"
)
"""The share of `benchmarks.sail_share`."""

_NO_SERVER = 0.1
"""Seconds of servers that mean that there was none."""

_OURS = "logdriven-defaults"
_WITH_DEFAULTS = (_OURS, "plain-pass", "plain-loop", "sqlmesh", "dbt", "dlt")
_DEFAULT_SCENARIOS = ("U", "V")

_TITLE = """# Benchmarks

Comparisons with plain PySpark, SQLMesh, dbt and dlt, and measurements of single parts.
"""

_HEAD = f"""## Method

```console
$ make bench ROUNDS=3 ONLY=A,D
$ make bench SCALE=quick
```

`make bench` writes this page from `docs/evidence/benchmarks.json`; no number of its tables is typed
by hand.

- **Contestants** run as whole processes, one after the other, in a random order that is new in
  each round. Each starts with an empty state folder and has the same Spark settings.
- **Results** are compared with those of DuckDB over the same data: counts per day and a hash
  over all columns. Wrong rows have no time.
- **Seconds** are medians, with the minimum and maximum of the rounds. A **ratio** is the median
  of the ratios of single rounds, so a slow phase of the machine affects both sides.
- **CPU** is user and system time of all processes, including JVMs. Behind a plus sign, where
  measured, is that of a warm server, cluster or database, which runs before and afterwards, too.
- **Peak MB** is that of the largest process. Linux counts the memory of the suite, which starts
  it, so no contestant has less than about 190.
- **"Our JVM options"** are `{" ".join(JVM_OPTIONS)}`. Our projects start their JVMs with them;
  others leave them to their users. Until 26 November 2026 there was only the first one, "our JVM
  option".
"""


def markdown(results: Results) -> str:
    """The whole document."""
    parts = [_TITLE.strip(), *_opening(results), _HEAD.strip()]
    parts += [*_targets(results), _FINDINGS.read_text().strip()]
    for name, scenario in results.scenarios.items():
        parts += [f"## {name}: {scenario.title}", _machine(scenario), *_contestants(scenario)]
    for name, probe in results.probes.items():
        parts += [f"## {name}: {probe['title']}", *_probe(probe)]
    parts += ["## Versions and settings", _pairs(results.versions), _pairs(results.settings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def picture(results: Results) -> str | None:
    """Return the seconds with everybody's defaults as SVG; None without these scenarios."""
    groups = [
        (
            scenario.title,
            [
                (times.label, Spread.of(times.seconds).median, who == _OURS)
                for who, times in _with_defaults(scenario)
            ],
        )
        for name, scenario in results.scenarios.items()
        if name in _DEFAULT_SCENARIOS and _has_times(scenario, _OURS)
    ]
    return draw_bars(groups) if groups else None


def _opening(results: Results) -> list[str]:
    """Return what everybody gets without settings: a table and a picture."""
    rows, machine = [], ""
    for name in _DEFAULT_SCENARIOS:
        scenario = results.scenarios.get(name)
        if scenario is None or not _has_times(scenario, _OURS):
            continue
        ours, machine = scenario.contestants[_OURS], _machine(scenario)
        for who, times in _with_defaults(scenario):
            by_clock = ratios(ours.seconds, times.seconds).text(2)
            by_cpu = ratios(ours.cpu_seconds, times.cpu_seconds).text(2)
            mine = ("", "") if who == _OURS else (by_clock, by_cpu)
            rows.append(
                (scenario.title, times.label, Spread.of(times.seconds).text(1), _cpu(times), *mine)
            )
    if not rows:
        return []
    head = ("scenario", "contestant", "seconds", "CPU seconds", "ours: seconds", "ours: CPU")
    text = (
        "Everybody's defaults, on a layout that most people have: a folder for each day, written "
        "by Spark. Our table has a source with a `window_column`, a query and a target, and no "
        "other key. The last columns are our time divided by the contestant's."
    )
    image = "![Seconds without any setting](benchmarks.svg)"
    return ["## Defaults of all contestants", text, table(head, rows), image, machine]


def _with_defaults(scenario: Scenario) -> list[tuple[str, Times]]:
    """Return the contestants with their defaults, fastest first."""
    found = [
        (who, times)
        for who, times in scenario.contestants.items()
        if times.seconds and who in _WITH_DEFAULTS
    ]
    return sorted(found, key=lambda each: Spread.of(each[1].seconds).median)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns after the first are numbers."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _targets(results: Results) -> list[str]:
    rows = [row for target in TARGETS if (row := _target(target, results))]
    if not rows:
        return []
    note = f"- {_SAIL_SHARE}" if any(row[0].startswith("Sail") for row in rows) else ""
    return ["## Targets", table(("target", "measured", "limit", "met"), rows), note]


def _target(target: Target | Limit, results: Results) -> tuple[str, ...] | None:
    spread = target.measured(results)
    if spread is None:
        return None
    met = "yes" if spread.median <= target.at_most else "**no**"
    unit = f" {target.unit}" if isinstance(target, Limit) else ""
    return (
        f"{target.text} ({target.place[0] if isinstance(target, Limit) else target.scenario})",
        spread.text(2) + unit,
        f"{target.at_most:.2f}{unit}",
        met,
    )


def _machine(scenario: Scenario) -> str:
    told = scenario.machine
    return (
        f"{told['when']}; {told['cores']} cores, {told['memory_gb']} GB, load before: "
        f"{told['load_before']}; Python {told['python']}, Java {told['java']}, Spark "
        f"{told['spark']}, Dagster {told['dagster']}, "
        f"logdriven_dagster {told['logdriven_dagster']}."
    )


def _contestants(scenario: Scenario) -> list[str]:
    base = next((scenario.contestants[n] for n in _BASES if _has_times(scenario, n)), None)
    ran = [times for times in scenario.contestants.values() if times.seconds]
    ran.sort(key=lambda times: Spread.of(times.seconds).median)
    head = ("contestant", "seconds", "ratio", "CPU seconds", "peak MB", "rows")
    notes = [
        f"- {times.label}: {'**failed**' if times.failed else 'skipped'}: "
        f"{_line(times.failed or times.skipped)}"
        for times in scenario.contestants.values()
        if times.failed or times.skipped
    ]
    notes += [f"- {times.label}: {times.note}" for times in ran if times.note]
    notes += [f"- {times.label}: {_windows(times)}" for times in ran if times.first_window]
    if any("-sail" in name and times.seconds for name, times in scenario.contestants.items()):
        notes.append(f"- {_SAIL_SHARE}")
    rows = [_row(times, base) for times in ran]
    return [table(head, rows) if rows else "", "\n".join(notes)]


def _has_times(scenario: Scenario, name: str) -> bool:
    return name in scenario.contestants and bool(scenario.contestants[name].seconds)


def _row(times: Times, base: Times | None) -> tuple[str, ...]:
    return (
        times.label,
        Spread.of(times.seconds).text(1),
        ratios(times.seconds, base.seconds).text(2) if base else "",
        _cpu(times),
        f"{Spread.of(times.peak_mb).median:,.0f}" if times.peak_mb else "not known",
        f"{times.rows:,}",
    )


def _windows(times: Times) -> str:
    first, others = Spread.of(times.first_window), Spread.of(times.other_windows)
    return f"{first.text(1)} s for the first window, {others.text(2)} s for each other (median)"


def _cpu(times: Times) -> str:
    text = Spread.of(times.cpu_seconds).text(1)
    if max(times.server_cpu_seconds, default=0.0) < _NO_SERVER:
        return text
    return f"{text} + {Spread.of(times.server_cpu_seconds).text(1)}"


def _probe(probe: dict[str, Any]) -> list[str]:
    parts = probe.get("parts")
    told = [str(probe["machine"]), str(probe.get("text", ""))]
    if isinstance(parts, dict):
        calls = probe["calls"]
        rows = [(name, f"{ms:,.1f}", f"{calls[name]:,}") for name, ms in parts.items()]
        told.append(table(("part", "ms per window, median", "calls to Java"), rows))
    if shown := probe.get("table"):
        told.append(table(shown["head"], shown["rows"]))
    return told


def _pairs(values: dict[str, str]) -> str:
    return table(("name", "value"), [(f"`{name}`", text) for name, text in values.items()])


def _line(text: str) -> str:
    """The first line and, of long messages, the last, none of them endless."""
    lines = [line for line in text.splitlines() if line.strip()]
    shown = lines if len(lines) < 2 else [lines[0], lines[-1]]
    return " … ".join(shorten(line, 200, placeholder=" …") for line in shown)
