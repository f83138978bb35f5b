"""Parser of Sharp ETL's workflow files: headers in SQL comments, a query for each step.

The grammar is that of Sharp ETL's WorkflowParser. `-- workflow=` and `-- step=` begin a part. `--`
and one blank begin a header of a step; two blanks one of a workflow, source or target; three blanks
an entry of `options` or `notify`. A value `|` continues in lines `--  |text`. The original skips
unknown lines; this parser keeps them with their line numbers, so that they can be listed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from logdriven_dagster.errors import ConfigError, InvalidProjectError, UsageError
from logdriven_dagster.plugins.importers.drafts import Translation

_PAIR = re.compile(r"--(?P<indent> +)(?P<key>[A-Za-z0-9_.]+)=(?P<value>.*)")
_GROUP = re.compile(r"--(?P<indent> +)(?P<name>options|conf|notify)\s*")
_PARTS = frozenset({"workflow", "step", "source", "target"})
_FORM = "write `--  key=value`; lines of SQL follow the target and its headers"


@dataclass(frozen=True, slots=True)
class Header:
    """A key with its value and its location."""

    key: str
    value: str
    line: int


@dataclass(slots=True)
class End:
    """A source or target: its type, headers and options."""

    kind: str
    line: int
    headers: dict[str, Header] = field(default_factory=dict)
    options: dict[str, Header] = field(default_factory=dict)

    def get(self, key: str, default: str = "") -> str:
        return self.headers[key].value if key in self.headers else default

    def is_true(self, key: str) -> bool:
        return self.get(key).lower() == "true"

    @property
    def table(self) -> str:
        """The table with its database, without quotes and in lower case; "" if it has none."""
        names = (self.get("dbName"), self.get("tableName")) if self.get("tableName") else ()
        return ".".join(name.strip("`'\"") for name in names if name).lower()


@dataclass(slots=True)
class Step:
    """A step; without a source it reads the results of earlier steps."""

    name: str
    line: int
    source: End
    target: End
    headers: dict[str, Header] = field(default_factory=dict)
    conf: list[Header] = field(default_factory=list)
    sql: str = ""

    def is_true(self, key: str) -> bool:
        return key in self.headers and self.headers[key].value.lower() == "true"


@dataclass(slots=True)
class Workflow:
    """A workflow of Sharp ETL: the contents of one file."""

    path: Path
    name: str
    line: int
    headers: dict[str, Header] = field(default_factory=dict)
    options: dict[str, Header] = field(default_factory=dict)
    notifies: list[dict[str, Header]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def get(self, key: str, default: str = "") -> str:
        return self.headers[key].value if key in self.headers else default

    def place(self, line: int) -> str:
        return f"{self.path}:{line}"

    def texts(self) -> Iterator[str]:
        """Yield all texts of the steps that may contain variables."""
        for step in self.steps:
            yield step.sql
            given = [step.headers, step.source.headers, step.source.options]
            given += [step.target.headers, step.target.options]
            yield from (header.value for headers in given for header in headers.values())
            yield from (header.value for header in step.conf)


def parse_workflow(path: Path) -> Workflow:
    """Parse a file. Raises ConfigError with the first line that is not valid in a workflow."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(path, None, "", f"cannot be read: {error}") from None
    return _Parser(path, text.splitlines()).workflow()


class _Parser:
    def __init__(self, path: Path, lines: list[str]) -> None:
        self._path, self._lines, self._at = path, lines, 0

    def workflow(self) -> Workflow:
        line = self._next_line()
        head = self._pair(1)
        if head is None or head.key != "workflow" or not head.value:
            raise self._error("expected `-- workflow=name`", line)
        found = Workflow(self._path, head.value, head.line)
        while self._next_line() is not None and not self._begins("step"):
            if group := self._group(2):
                entries = {entry.key: entry for entry in self._pairs(3)}
                if group == "notify":
                    found.notifies.append(entries)
                else:
                    found.options |= entries
            elif header := self._pair(2):
                found.headers[header.key] = header
            else:
                raise self._error("this is not a header of a workflow")
        while self._next_line() is not None:
            found.steps.append(self._step())
        if not found.steps:
            raise self._error("the workflow has no step", len(self._lines))
        return found

    def _step(self) -> Step:
        head = self._pair(1)
        assert head is not None
        ends: dict[str, End] = {}
        while "target" not in ends:
            if self._next_line() is None:
                raise self._error(f"step {head.value} has no target", head.line)
            side = self._pair(1)
            if side is None or side.key not in ("source", "target"):
                raise self._error(f"expected `-- target=` of step {head.value}")
            ends[side.key] = self._end(side)
        source = ends.get("source") or End("temp", head.line)
        step = Step(head.value, head.line, source, ends["target"])
        self._step_headers(step)
        step.sql = self._sql()
        return step

    def _end(self, head: Header) -> End:
        """Parse a source or target; arguments of a transformation may be indented further."""
        end = End(head.value.lower().strip("`'\""), head.line)
        while self._next_line() is not None:
            if self._group(2) is not None:
                end.options |= {entry.key: entry for entry in self._pairs(3)}
            elif header := self._pair(2) or (end.kind == "transformation" and self._pair(3)):
                end.headers[header.key] = header
            else:
                break
        before = self._lines[self._at - 1] if self._at else ""
        # Sharp ETL would read it as a comment of the query, and silently lose a header.
        if before.startswith("--") and re.fullmatch(r"-- {2,3}[\w.]+\s*", self._line or ""):
            raise self._error("a header without a value")
        return end

    def _step_headers(self, step: Step) -> None:
        while self._next_line() is not None and not self._begins("step"):
            if self._group(1) == "conf":
                step.conf += self._pairs(2)
            elif header := self._pair(1):
                step.headers[header.key] = header
            else:
                return

    def _sql(self) -> str:
        start = self._at
        while self._line is not None and not self._begins("step"):
            self._at += 1
        return "\n".join(self._lines[start : self._at]).strip().removesuffix(";").strip()

    def _pairs(self, indent: int) -> Iterator[Header]:
        while self._next_line() is not None and (header := self._pair(indent)):
            yield header

    def _pair(self, indent: int) -> Header | None:
        match = _PAIR.fullmatch((self._line or "").rstrip())
        if match is None or len(match["indent"]) != indent:
            return None
        if indent > 1 and match["key"] in _PARTS:
            return None
        self._at += 1
        number, value = self._at, match["value"].strip()
        if value == "|":
            # Without continuation lines it is a column separator.
            value = "\n".join(self._read_continuation(indent)) or value
        return Header(match["key"], value, number)

    def _read_continuation(self, indent: int) -> Iterator[str]:
        mark = "--" + " " * indent + "|"
        while self._line is not None and self._line.startswith(mark):
            yield self._line.removeprefix(mark)
            self._at += 1

    def _group(self, indent: int) -> str | None:
        match = _GROUP.fullmatch((self._line or "").rstrip())
        if match is None or len(match["indent"]) != indent:
            return None
        self._at += 1
        return match["name"]

    def _begins(self, part: str) -> bool:
        return (self._line or "").startswith(f"-- {part}=")

    @property
    def _line(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _next_line(self) -> int | None:
        """Return the number of the next non-blank line, or None at the end of the file."""
        while self._line is not None and not self._line.strip():
            self._at += 1
        return None if self._line is None else self._at + 1

    def _error(self, problem: str, line: int | None = None) -> ConfigError:
        text = (self._line or "").strip()
        found = f"{problem}, not {text!r}" if text and line is None else problem
        return ConfigError(self._path, line or self._at + 1, "", found, _FORM)


def read_workflows(paths: Sequence[Path], translation: Translation) -> list[Workflow]:
    """Read all workflows. Raises InvalidProjectError for malformed files and duplicate names.

    Source: Sharp ETL, DuplicatedScript and WorkFlowSyntaxException.
    """
    found: dict[str, Workflow] = {}
    errors: list[ConfigError] = []
    for path in _list_files(paths, translation):
        try:
            workflow = parse_workflow(path)
        except ConfigError as error:
            errors.append(error)
            continue
        if (first := found.setdefault(workflow.name, workflow)) is not workflow:
            problem = f"workflow {workflow.name} is defined twice, first in {first.path}"
            errors.append(ConfigError(path, workflow.line, "workflow", problem))
    if errors:
        raise InvalidProjectError(errors)
    return list(found.values())


def _list_files(paths: Sequence[Path], translation: Translation) -> list[Path]:
    """Return the named files and the workflows in named folders; records other SQL files there."""
    files: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist")
        for file in sorted(path.rglob("*.sql")) if path.is_dir() else [path]:
            if path.is_dir() and not _is_workflow(file.read_text("utf-8", errors="replace")):
                translation.leave(str(file), "the file", "it has no `-- workflow=`")
            else:
                files[file] = None
    return list(files)


def _is_workflow(text: str) -> bool:
    """Return True if a file is intended as a workflow, well-formed or not."""
    return re.search(r"^-- *workflow\b", text, re.MULTILINE) is not None
