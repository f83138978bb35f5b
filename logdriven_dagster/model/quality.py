"""Results of data quality rules for the rows of one step."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

KEPT_IDS = 1000
"""Maximum number of failing rows named in the log. Source: Sharp ETL, DEFAULT_TOP_N."""
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class RuleResult:
    """Number of rows that break one rule, with the ids of the first ones."""

    rule: str
    column: str | None
    level: str
    """`warn` or `error`."""
    blocking: bool
    count: int
    ids: tuple[Mapping[str, Any], ...] = ()
    """At most KEPT_IDS; only id columns, since other values may be personal data."""

    @property
    def passed(self) -> bool:
        return self.count == 0

    @property
    def subject(self) -> str:
        """The rule and its column, for messages."""
        return f"{self.rule} of {self.column}" if self.column else self.rule

    def format(self, examples: int = _EXAMPLES) -> str:
        """Format the count and the first ids for messages."""
        rows = f"{self.count:,} row" + ("" if self.count == 1 else "s")
        first = "; ".join(
            ", ".join(f"{name}={value}" for name, value in row.items())
            for row in self.ids[:examples]
        )
        return f"{rows}, such as {first}" if first else rows


@dataclass(frozen=True, slots=True)
class QualityReport:
    """Results of all rules of a step."""

    checked: int
    """Number of rows checked."""
    rejected: int
    """Rows that break a rule of level error and are not in the target."""
    results: tuple[RuleResult, ...]
    min_pass: float | None = None
    good_hash: str | None = None
    """SHA-256 of the content of the files that hold the good rows."""

    @property
    def good_percent(self) -> float:
        """Percentage of rows without an error; 100 without rows."""
        return 100.0 * (self.checked - self.rejected) / self.checked if self.checked else 100.0

    @property
    def refusal(self) -> str | None:
        """The reason why the result must not be published, or None."""
        blocking = [result for result in self.results if result.blocking and not result.passed]
        problems = [f"quality: {result.subject}: {result.format()}" for result in blocking]
        if self.min_pass is not None and self.good_percent < self.min_pass:
            problems.append(
                f"quality: only {_format_percent(self.good_percent)} of {self.checked:,} rows pass "
                f"all rules, {self.rejected:,} do not; min_pass is {_format_percent(self.min_pass)}"
            )
        return "\n".join(problems) or None

    def state(self) -> dict[str, Any]:
        """Serialize the report as JSON values."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "QualityReport":
        """Restore a report from a `state`, which may have been serialized as JSON."""
        results = tuple(
            RuleResult(**{**result, "ids": tuple(result["ids"])}) for result in state["results"]
        )
        return cls(**{**state, "results": results})


def format_ids(result: RuleResult) -> str | None:
    """Format ids for `quality_check_log.ids`: a JSON list of objects, or None without ids."""
    return json.dumps(list(result.ids), ensure_ascii=False, default=str) if result.ids else None


def _format_percent(number: float) -> str:
    # Never rounded up: 99.999 % is not 100 %.
    return f"{int(number * 100) / 100:g} %"
