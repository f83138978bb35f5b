"""What a run of the suite found out, as it is kept in JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Times:
    """One contestant in one scenario; one value for each round, in their order."""

    label: str
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    rows: int | None = None
    """How many the result has, which was compared with what is right."""
    skipped: str = ""
    failed: str = ""
    note: str = ""

    def add(self, *, seconds: float, cpu_seconds: float, peak_mb: float, rows: int) -> None:
        """One more round with a right result."""
        self.seconds.append(round(seconds, 2))
        self.cpu_seconds.append(round(cpu_seconds, 2))
        self.peak_mb.append(round(peak_mb))
        self.rows = rows


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
