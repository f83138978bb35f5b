"""The suite's command. A benchmark is started by hand; nothing here runs in the tests."""

import argparse
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import environments, probes
from benchmarks.contestants import CONTESTANTS
from benchmarks.process import adopt_orphans
from benchmarks.racing import Race
from benchmarks.rendering import markdown, picture
from benchmarks.results import Results
from benchmarks.scenarios import COURSES, Course, Stage
from benchmarks.settings import ROOT, SCALES, SPARK, WORK


def main() -> int:
    """Run what is asked for and write JSON and Markdown; 1 if a contestant failed."""
    given = _arguments()
    scale = SCALES[given.scale]
    scale = replace(scale, tables=given.tables or scale.tables, hours=given.hours or scale.hours)
    only = tuple(filter(None, given.only.split(","))) or scale.only
    if unknown := set(only) - _known():
        known = ", ".join(sorted(_known()))
        sys.exit(f"ONLY={','.join(sorted(unknown))}: it is none of {known}")
    folder = given.output or (ROOT / "docs/evidence" if scale.name == "full" else WORK / scale.name)
    path = folder / "benchmarks.json"
    results = Results.load(path, scale.name)
    results.settings = dict(SPARK)
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # on the way out of Ctrl-C
    failed = False
    for course in _courses(only):
        names = _names(only)
        with _database(course) as url:
            race = Race(course, scale, names, course.stages, _scenarios_asked(only), url, _say)
            found = race.run(given.rounds or scale.rounds)
        failed |= any(t.failed for each in found.values() for t in each.contestants.values())
        for name, scenario in found.items():
            if name in results.scenarios and len(names) < len(CONTESTANTS):
                kept = results.scenarios[name].contestants
                scenario.contestants = {**kept, **scenario.contestants}
            results.scenarios[name] = scenario
        _write(results, path)
    for name in probes.PROBES:
        if _asked(name, only, {*_scenarios(), *probes.PROBES}):
            _say(f"probe {name}")
            results.probes[name] = probes.run(name, scale, given.rounds or scale.rounds)
            _write(results, path)
    _say(f"written: {path} and {path.with_suffix('.md')}")
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--rounds", type=int, help="how often each contestant runs")
    parser.add_argument(
        "--only",
        default="",
        help="scenarios (A, B, … F, G, …) and contestants, with commas: of each kind only these",
    )
    parser.add_argument("--tables", type=int, help="how many tables P has; by default 1,000")
    parser.add_argument("--hours", type=int, help="for how many hours P runs them; by default 24")
    parser.add_argument("--output", type=Path, help="a folder instead of docs/evidence/")
    return parser.parse_args()


def _scenarios() -> set[str]:
    """Their names, and what several have in common: "C Iceberg", and "C" for both of C."""
    names = {stage.scenario for course in COURSES for stage in course.stages}
    return names | {name.split()[0] for name in names}


def _known() -> set[str]:
    return {*_scenarios(), *CONTESTANTS, *probes.PROBES}


def _asked(name: str, only: Collection[str], kind: Collection[str]) -> bool:
    """Whether a name is wanted: nothing of its kind is named, or it is."""
    chosen = set(only) & set(kind)
    return not chosen or name in chosen


def _names(only: Collection[str]) -> list[str]:
    return [name for name in CONTESTANTS if _asked(name, only, CONTESTANTS)]


def _scenarios_asked(only: Collection[str]) -> set[str]:
    kinds = {*_scenarios(), *probes.PROBES}
    names = (stage.scenario for course in COURSES for stage in course.stages)
    return {
        name for name in names if _asked(name, only, kinds) or _asked(name.split()[0], only, kinds)
    }


def _courses(only: Collection[str]) -> Iterator[Course]:
    """Courses cut off behind the last stage that is asked for; those before it prepare it."""
    asked = _scenarios_asked(only)
    for course in COURSES:
        wanted = [stage.scenario in asked for stage in course.stages]
        if any(wanted):
            last = len(wanted) - wanted[::-1].index(True)
            stages: tuple[Stage, ...] = course.stages[:last]
            yield replace(course, stages=stages)


@contextmanager
def _database(course: Course) -> Iterator[str | None]:
    """The URL of a private PostgreSQL server, if the course writes to one."""
    if course.target != "jdbc":
        yield None
        return
    from scripts import servers

    root = Path(f"/tmp/logdriven-bench-{time.time_ns()}")
    try:
        yield servers.start_postgres(root)
    finally:
        servers.stop(root)


def _write(results: Results, path: Path) -> None:
    for name in ("sqlmesh", "dbt", "dlt", "reader"):
        results.versions |= environments.versions(name)
    results.save(path)
    path.with_suffix(".md").write_text(markdown(results))
    if drawn := picture(results):
        path.with_suffix(".svg").write_text(drawn)


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
