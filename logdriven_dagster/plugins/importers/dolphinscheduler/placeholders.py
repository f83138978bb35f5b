"""Parameters and times in texts of DolphinScheduler: `${name}`, `!{name}`, `$[yyyyMMdd-1]`.

Times are relative to the scheduled time. Source: DolphinScheduler, TimePlaceholderUtils, SqlTask.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from logdriven_dagster.plugins.importers.dolphinscheduler.crontabs import Cadence
from logdriven_dagster.plugins.importers.dolphinscheduler.definitions import (
    Parameter,
    Task,
    Workflow,
)
from logdriven_dagster.plugins.importers.drafts import UntranslatableError

_IN_SQL = re.compile(r"(?P<quotes>['\"]*)(?P<mark>[$!])\{(?P<name>[^}]*)\}(?P<end>['\"]*)")
_IN_SCRIPT = re.compile(r"\$\{(?P<name>[^}]*)\}")
_TIME = re.compile(r"\$\[([^\]]*)\]")
_FORMAT = re.compile(r"(?:yyyy|yy|MM|dd|HH|mm|ss|[-/:. _])+")
_ADD_MONTHS = re.compile(r"add_months\(([^,()]+),\s*([+-]?[0-9]+)\)")
_DAYS = re.compile(r"(.*?)([+-])([0-9]+)(?:/([0-9]+)(?:/([0-9]+))?)?")
_STRFTIME = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_TEXT_TYPES = ("VARCHAR", "DATE", "TIME", "TIMESTAMP")
_NUMBER_TYPES = ("INTEGER", "LONG", "FLOAT", "DOUBLE")
_MINUTES = {"1 day": 24 * 60, "1 week": 7 * 24 * 60}
_SYSTEM_TIMES = {
    "system.biz.date": "yyyyMMdd-1",
    "system.biz.curdate": "yyyyMMdd",
    "system.datetime": "yyyyMMddHHmmss",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A time in a text: an end of the window, or days before or after it, in a format of Java."""

    is_end: bool
    format: str
    days: int = 0
    refusal: str = ""
    """Reason why texts cannot contain it: a window has no variable for other days."""

    @property
    def variable(self) -> str:
        """The variable of a window in texts. Raises UntranslatableError if there is none."""
        if self.days:
            raise UntranslatableError(self.refusal)
        return f"${{DATA_RANGE_{'END' if self.is_end else 'START'}:{self.format}}}"

    @property
    def expression(self) -> str:
        """The Python expression that formats the time of a `window`."""
        text = re.sub("yyyy|yy|MM|dd|HH|mm|ss", lambda m: _STRFTIME[m[0]], self.format)
        bound = f"window.{'end' if self.is_end else 'start'}"
        if self.days:
            bound = f"({bound} + timedelta(days={self.days}))"
        return f"{bound}.strftime({text!r})"


@dataclass(slots=True)
class Placeholders:
    """The parameters of one task; local ones take precedence over global ones."""

    workflow: Workflow
    task: Task
    cadence: Cadence
    variables: dict[str, str] = field(default_factory=dict)
    """Constants that the texts use, by name."""

    def replace_in_sql(self, text: str) -> str:
        """Replace the parameters of a statement.

        DolphinScheduler binds `${name}` as a value of its type, and removes quotes around it.
        `!{name}` is replaced as text. Raises UntranslatableError for anything else.
        """

        def parameter(match: re.Match[str]) -> str:
            name, quotes = match["name"], match["quotes"]
            found = self._find(name)
            if quotes != match["end"] or len(quotes) > 1:
                raise UntranslatableError(f"{match[0]}: the quotes around a parameter do not match")
            if text[: match.start()].count("'") % 2:
                raise UntranslatableError(
                    f"{match[0]} is within quotes, where DolphinScheduler binds no value; write "
                    "the text as a parameter of its own"
                )
            value = self._value(found)
            if match["mark"] == "!" or found.type in _NUMBER_TYPES:
                return value
            if found.type not in _TEXT_TYPES:
                raise UntranslatableError(f"parameter {name} has the type {found.type}")
            return f"'{value}'"

        replaced = _IN_SQL.sub(parameter, text)
        return _TIME.sub(lambda match: self._bound(match[1]).variable, replaced)

    def replace_in_script(self, script: str) -> dict[str, str]:
        """Return a Python expression for each placeholder of a script.

        A `${name}` without a parameter is a variable of the script, as in DolphinScheduler.
        """
        found: dict[str, str] = {}
        for match in _IN_SCRIPT.finditer(script):
            name = match["name"]
            if self._has(name):
                found[match[0]] = self._expression(self._find(name))
        for match in _TIME.finditer(script):
            found[match[0]] = self._bound(match[1]).expression
        return found

    def _has(self, name: str) -> bool:
        named = (*self._parameters(), *self.workflow.passed)
        return name in named or name.startswith("system.")

    def _parameters(self) -> Mapping[str, Parameter]:
        every = (*self.workflow.parameters, *self.task.local)
        return {each.name: each for each in every if not each.is_output}

    def _find(self, name: str) -> Parameter:
        constants = {
            "system.workflow.definition.name": self.workflow.name,
            "system.workflow.definition.code": self.workflow.code,
            "system.project.code": self.workflow.project,
            "system.task.definition.name": self.task.name,
            "system.task.definition.code": self.task.code,
        }
        if name in constants:
            return Parameter(name.replace(".", "_"), "VARCHAR", constants[name])
        if name in _SYSTEM_TIMES:
            return Parameter(name, "VARCHAR", f"$[{_SYSTEM_TIMES[name]}]")
        known = self._parameters()
        own = {each.name for each in self.task.local if not each.is_output}
        if name in self.workflow.passed - own:
            raise UntranslatableError(
                f"an earlier task passes the value of {name}; let the query read it from the "
                "table of that task"
            )
        if name not in known:
            raise UntranslatableError(
                f"parameter {name} has no value in the workflow; set it in variables"
            )
        return known[name]

    def _value(self, parameter: Parameter, seen: frozenset[str] = frozenset()) -> str:
        """Return the text of a parameter: `${name}` of a variable, or a time of the window."""
        found = self._resolve(parameter, seen)
        if isinstance(found, Bound):
            return found.variable
        if any(each in found.value for each in ("'", '"', "\\", "${", "$[")):
            raise UntranslatableError(
                f"parameter {found.name} has quotes or placeholders in its value; write it into "
                "the text"
            )
        self.variables[found.name] = found.value
        return f"${{{found.name}}}"

    def _expression(self, parameter: Parameter) -> str:
        found = self._resolve(parameter, frozenset())
        return found.expression if isinstance(found, Bound) else repr(found.value)

    def _resolve(self, parameter: Parameter, seen: frozenset[str]) -> Parameter | Bound:
        """Follow a value that consists of another parameter or of a time."""
        if parameter.name in seen:
            raise UntranslatableError(f"parameter {parameter.name} refers to itself")
        if whole := _TIME.fullmatch(parameter.value):
            return self._bound(whole[1])
        if other := _IN_SCRIPT.fullmatch(parameter.value):
            inner = self._find(other["name"])
            return self._resolve(inner, seen | {parameter.name})
        return parameter

    def _bound(self, expression: str) -> Bound:
        """Return the end of the window that a time placeholder means."""
        written = f"$[{expression}]"
        text, days, months = expression.strip(), 0.0, 0
        if found := _ADD_MONTHS.fullmatch(text):
            text, months = found[1].strip(), int(found[2])
        elif (found := _DAYS.fullmatch(text)) and not _FORMAT.fullmatch(text):
            text, size = found[1].strip(), int(found[3])
            parts = int(found[4] or 1) * int(found[5] or 1)
            if not parts:
                raise UntranslatableError(f"{written} divides by 0")
            days = (size if found[2] == "+" else -size) / parts
        if not _FORMAT.fullmatch(text):
            raise UntranslatableError(f"{written} is not a time of the window; write it in SQL")
        shift = round(days * 24 * 60)
        if self._shows_delay(text):
            raise UntranslatableError(
                f"{written} has the time of the schedule, which a window does not have"
            )
        if not days and not months:
            return Bound(is_end=True, format=text)
        if self._is_one_period(shift, months):
            return Bound(is_end=False, format=text)
        refusal = (
            f"{written} is neither the start nor the end of a window of {self.cadence.period}; "
            "compute it in the query from ${DATA_RANGE_END}"
        )
        shows_time = any(part in text for part in ("HH", "mm", "ss"))
        if months or shift % (24 * 60) or shows_time:
            raise UntranslatableError(refusal)
        return Bound(is_end=True, format=text, days=shift // (24 * 60), refusal=refusal)

    def _is_one_period(self, shift: int, months: int) -> bool:
        """Return True if a shift in minutes and months leads to the start of the window."""
        if months:
            return months == -1 and not shift and self.cadence.period == "1 month"
        count, unit = self.cadence.period.split()
        if unit in ("min", "hour", "hours"):
            return -shift == int(count) * (1 if unit == "min" else 60)
        return -shift == _MINUTES.get(self.cadence.period)

    def _shows_delay(self, text: str) -> bool:
        """Return True if a format shows the time from the end of the window to the schedule."""
        if not self.cadence.delay:
            return False
        is_daily = self.cadence.period in ("1 day", "1 week", "1 month")
        return any(part in text for part in (("HH", "mm", "ss") if is_daily else ("mm", "ss")))
