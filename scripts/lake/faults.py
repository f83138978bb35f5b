"""What goes wrong in a server when it is told to, and the count of what it was asked."""

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

AFTER = {"lost", "late-500", "late-503"}
"""Kinds of faults that come when the work is done."""
KINDS = AFTER | {"500", "503", "hang", "dropped"}


@dataclass
class Fault:
    """Something that goes wrong with the requests of an operation and a path.

    `500` and `503` are answered instead of doing the work, `late-500` and `late-503` after it;
    `dropped` closes the connection before the work, `lost` after it; `hang` waits before it.
    `times` is how often at most, `share` of how many of the requests it is.
    """

    kind: str
    operation: str = "*"
    path: str = "*"
    times: int | None = 1
    share: float = 1.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind of fault {self.kind!r}: must be one of {sorted(KINDS)}")


@dataclass
class Faults:
    """The faults of a server, and its requests by operation."""

    seed: int = 1
    requests: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    _faults: list[Fault] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - faults are no secrets

    def plan(self, *faults: Fault) -> None:
        """Replace the faults that are to come."""
        with self._lock:
            self._faults = list(faults)

    def meet(self, operation: str, path: str) -> Fault | None:
        """Count a request; the fault that it meets."""
        with self._lock:
            self.requests[operation] += 1
            for fault in self._faults:
                if self._strikes(fault, operation, path):
                    self.met[f"{operation} {fault.kind}"] += 1
                    return fault
        return None

    def _strikes(self, fault: Fault, operation: str, path: str) -> bool:
        if fault.times == 0 or not fnmatchcase(operation, fault.operation):
            return False
        if not fnmatchcase(path, fault.path) or self._random.random() >= fault.share:
            return False
        if fault.times is not None:
            fault.times -= 1
        return True

    def forget(self) -> None:
        """Count requests and faults from none again."""
        with self._lock:
            self.requests.clear()
            self.met.clear()
