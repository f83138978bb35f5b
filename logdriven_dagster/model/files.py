"""Files that tables load one by one, as values. Source: BDRE, FILE."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A version of a file, as a listing or a message describes it."""

    server: str
    """Scheme and host; empty for the local machine."""
    path: str
    size: int
    """Size in bytes."""
    hash: str
    """Hash of the content, or of size and time; distinguishes versions."""
    created: datetime
    """Time of the last modification, aware."""

    def __post_init__(self) -> None:
        for name, value, most in (("hash", self.hash, 128), ("server", self.server, 128)):
            if len(value) > most:
                fix = f"the maximum is {most}; use a digest such as SHA-256"
                raise ValueError(f"{self.location}: {name} has {len(value)} characters; {fix}")

    @property
    def location(self) -> str:
        return self.server + self.path


@dataclass(frozen=True, slots=True)
class RegisteredFile(FoundFile):
    """A file registered in the run log."""

    batch_id: int


def join_locations(files: Iterable[FoundFile]) -> str:
    """Return the locations of files, separated by semicolons. Source: BDRE, GetFiles."""
    return ";".join(file.location for file in files)
