"""The rows that a step sends to each of its consumers: Filter rows and Switch / case."""

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import (
    as_text,
    condition_of,
    literal,
    quote,
)
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.rows.models import RowStep


def restricts(step: RowStep) -> bool:
    """Return True if a step sends only some of its rows to a consumer."""
    return step.kind in ("FilterRows", "SwitchCase")


def restrict(step: RowStep, consumer: str) -> str | None:
    """Return the condition of the rows that a step sends to a consumer; None if it sends all."""
    if step.kind == "FilterRows":
        return _filter(step, consumer)
    if step.kind == "SwitchCase":
        return _switch(step, consumer)
    return None


def _filter(step: RowStep, consumer: str) -> str:
    element = step.element
    condition = element.find("compare/condition")
    if condition is None:
        raise UntranslatableError(f"{step.name}: it has no condition")
    found = condition_of(condition, step.name)
    met = read_text(element, "send_true_to").lower()
    unmet = read_text(element, "send_false_to").lower()
    if met == unmet and met:
        raise UntranslatableError(f"{step.name}: it sends all rows to {met}")
    if consumer.lower() == met or (not met and not unmet):
        return found
    if consumer.lower() == unmet:
        return f"NOT {found}"
    raise UntranslatableError(f"{step.name}: it sends no rows to {consumer}")


def _switch(step: RowStep, consumer: str) -> str:
    element, column = step.element, as_text(quote(read_text(step.element, "fieldname")))
    if read_text(element, "use_contains").upper() == "Y":
        raise UntranslatableError(f"{step.name}: it compares parts of texts; use Filter rows")
    if read_text(element, "case_value_type") not in ("String", ""):
        raise UntranslatableError(f"{step.name}: its cases are not texts; use Filter rows")
    cases = [
        (each.findtext("value") or "", read_text(each, "target_step").lower())
        for each in element.iterfind("cases/case")
    ]

    def meets(text: str) -> str:
        return f"{column} <=> {literal(text)}" if text else f"{column} IS NULL"

    conditions = [meets(text) for text, target in cases if target == consumer.lower()]
    if read_text(element, "default_target_step").lower() == consumer.lower():
        others = " OR ".join(meets(text) for text, _ in cases) or "false"
        conditions.append(f"NOT ({others})")
    if not conditions:
        raise UntranslatableError(f"{step.name}: it sends no rows to {consumer}")
    return " OR ".join(conditions)
