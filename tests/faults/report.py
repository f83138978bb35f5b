"""What a harness of faults did, what came of it, and how that is told."""

import platform
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass
class Report:
    """What was done and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    windows: int = 0
    attempts: int = 0
    resumed_steps: int = 0
    zombies: int = 0
    zombies_refused: int = 0
    slowest_takeover: float = 0
    """Seconds from a death until its window was ready again."""
    set_back: timedelta = timedelta(0)
    """By how much the log's clock was set back, all in all."""
    violations: list[str] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        """Sum up."""
        self.faults += other.faults
        for name in ("runs", "windows", "attempts", "resumed_steps", "zombies", "zombies_refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest_takeover = max(self.slowest_takeover, other.slowest_takeover)
        self.violations += other.violations


def markdown(heading: str, projects: dict[str, Report], total: Report) -> str:
    """The report, as `docs/evidence/reliability.md` keeps it."""
    reports = [*projects.values(), total]
    figures = {
        "faults": [sum(r.faults.values()) for r in reports],
        "processes started": [r.runs for r in reports],
        "finished windows": [r.windows for r in reports],
        "attempts": [r.attempts for r in reports],
        "staged steps reused after a takeover": [r.resumed_steps for r in reports],
        "frozen runners resumed": [r.zombies for r in reports],
        "resumed runners rejected": [r.zombies_refused for r in reports],
        "longest time from death to takeover, s": [f"{r.slowest_takeover:.1f}" for r in reports],
        "violations": [len(r.violations) for r in reports],
    }
    lines = [
        f"{heading}, {platform.machine()}, Python {platform.python_version()}.",
        "",
        "| | " + " | ".join([*projects, "both"]) + " |",
        "| --- |" + " ---: |" * len(reports),
        *(f"| {name} | " + " | ".join(map(str, row)) + " |" for name, row in figures.items()),
        "",
        "| fault, point | times |",
        "| --- | ---: |",
        *(f"| {name} | {times} |" for name, times in sorted(total.faults.items()) if times),
        "",
        *(f"- VIOLATION: {text}" for text in total.violations),
    ]
    return "\n".join(lines).rstrip() + "\n"
