"""An exception of Spark's JVM, as Python represents it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JvmException:
    """One exception of a chain of causes in Spark's JVM."""

    types: tuple[str, ...]
    """Names of its class and of all superclasses."""
    message: str
    condition: str | None = None
    """Spark's error condition; None for other exceptions."""
    sql_state: str | None = None
    error_code: int | None = None
    """The database's error code, if a JDBC driver reports one; None over Spark Connect."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Message parameters of the condition, by Spark's names."""
    fragment: str = ""
    """The part of the query where the error occurred, if Spark reports it."""

    @property
    def name(self) -> str:
        """Name of its class without the package."""
        return self.types[0].rpartition(".")[2].rpartition("$")[2]
