"""An exception of Spark's JVM, as Python sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JvmException:
    """One exception of a chain of causes in Spark's JVM."""

    types: tuple[str, ...]
    """The names of its class and of all those above it."""
    message: str
    condition: str | None = None
    """Spark's name for the kind of error; None of other exceptions."""
    sql_state: str | None = None
    error_code: int | None = None
    """The database's own, where a JDBC driver tells it; nothing of it comes over Connect."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What Spark puts into the text of the condition, by its names for them."""
    fragment: str = ""
    """The part of the query where it arose, if Spark knows it."""

    @property
    def name(self) -> str:
        """Return the name of its class without the package."""
        return self.types[0].rpartition(".")[2].rpartition("$")[2]
