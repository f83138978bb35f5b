"""What a run of the suite found out, as it is kept in JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.process import Measured


@dataclass
class Times:
    """One contestant in one scenario; one value for each round, in their order."""

    label: str
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    server_cpu_seconds: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    rows: int | None = None
    """How many the result has, which was compared with what is right."""
    first_window: list[float] = field(default_factory=list)
    """Seconds of the first window of each round, by the contestant's own log, if it has one."""
    other_windows: list[float] = field(default_factory=list)
    """The median of those behind it."""
    skipped: str = ""
    failed: str = ""
    note: str = ""

    def add(self, measured: Measured, rows: int, windows: Sequence[float] = ()) -> None:
        """One more round with a right result; the seconds of each window, if they are known."""
        self.seconds.append(round(measured.seconds, 2))
        self.cpu_seconds.append(round(measured.cpu_seconds, 2))
        self.server_cpu_seconds.append(round(measured.server_cpu_seconds, 2))
        self.peak_mb.append(round(measured.peak_mb))
        self.rows = rows
        if len(windows) > 1:
            self.first_window.append(round(windows[0], 2))
            self.other_windows.append(round(median(windows[1:]), 2))


@dataclass
class Scenario:
    """All contestants of one scenario, and the machine just before."""

    title: str
    machine: dict[str, Any]
    contestants: dict[str, Times]


@dataclass
class Results:
    """All scenarios and probes that were ever run at this scale, each as it was run last."""

    scale: str
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, scale: str) -> "Results":
        """What the file holds, if it is of this scale; else nothing."""
        if not path.exists():
            return cls(scale)
        values = json.loads(path.read_text())
        if values["scale"] != scale:
            return cls(scale)
        scenarios = {
            name: Scenario(
                each["title"],
                each["machine"],
                {who: Times(**times) for who, times in each["contestants"].items()},
            )
            for name, each in values.pop("scenarios").items()
        }
        return cls(**values, scenarios=scenarios)

    def save(self, path: Path) -> None:
        """Write the file, scenarios in the order of their names."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.scenarios = dict(sorted(self.scenarios.items()))
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")
