"""Formats of times: `${DATA_RANGE_START:yyyyMMdd}` in texts, `${DATA_RANGE:…}` in paths.

A format consists of `yyyy`, `yy`, `MM`, `dd`, `HH`, `mm` and `ss`, with any separators between them
that are not letters. Times are those of the project's wall clock.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from logdriven_dagster.model.windows import TimeWindow

START, END, RANGE = "DATA_RANGE_START", "DATA_RANGE_END", "DATA_RANGE"
FORMATTED = re.compile(rf"\$\{{({RANGE}|{START}|{END}):([^}}]*)\}}")
"""A reference with a format. `DATA_RANGE` stands for every time of the window, in paths only."""

MOST_TEXTS = 2000
"""The maximum number of texts of one window, each of which is a folder or file to read."""

_PARTS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}
_NAMED = {"YEAR": "yyyy", "MONTH": "MM", "DAY": "dd", "HOUR": "HH", "MINUTE": "mm"}
"""Variable without a format → the format of the window's start with the same text."""
_NAMED_REFERENCE = re.compile(rf"\$\{{({'|'.join(_NAMED)})\}}")
_VARYING = re.compile(rf"{FORMATTED.pattern}|\$\{{[^}}]*\}}|\{{[^}}]*\}}|\*|\?")
"""A reference or placeholder in a path."""
_LEAST = (("MM", 1), ("dd", 1), ("HH", 0), ("mm", 0), ("ss", 0))
_LETTERS = re.compile(r"([A-Za-z])\1*")
_PIECES = re.compile("|".join(_PARTS) + "|.")
_STEPS = {"ss": timedelta(seconds=1), "mm": timedelta(minutes=1)}
"""The time between two texts. Hours are short enough for all other parts, also when clocks change.

A time zone's offset is a multiple of a minute; a window may begin within an hour.
"""


@dataclass(frozen=True, slots=True)
class ClockFormat:
    """A format of times."""

    text: str

    def find_mistake(self) -> str | None:
        """Return the problem with the format, or None."""
        found = [match[0] for match in _LETTERS.finditer(self.text)]
        unknown = [part for part in found if part not in _PARTS]
        if unknown:
            return f"{unknown[0]} is not a part of a time; use {', '.join(_PARTS)}"
        return None if found else "it has no part of a time, such as yyyy-MM-dd"

    def format(self, clock: datetime) -> str:
        """Return the text of a time of the wall clock."""
        return _LETTERS.sub(lambda part: clock.strftime(_PARTS[part[0]]), self.text)

    def list_texts(self, window: TimeWindow) -> list[str]:
        """Return the distinct texts of all times of a window, in order.

        Raises ValueError if there are more than `MOST_TEXTS`.
        """
        texts: dict[str, None] = {}
        for instant in self._iter_instants(window):
            texts[self.format(instant.astimezone(window.zone))] = None
            if len(texts) > MOST_TEXTS:
                raise ValueError(f"more than {MOST_TEXTS:,} texts of {self.text} lie in {window}")
        return list(texts)

    def _iter_instants(self, window: TimeWindow) -> Iterator[datetime]:
        steps = [step for part, step in _STEPS.items() if part in self.text]
        step, instant = min(steps, default=timedelta(hours=1)), window.start
        while instant < window.end:
            yield instant
            instant += step
        yield window.end - timedelta(microseconds=1)


def list_path_texts(path: str, window: TimeWindow) -> list[str]:
    """Return the paths of a window: one, or one for each text of `${DATA_RANGE:…}`.

    Raises ValueError for an unknown part of a format, and for too many texts.
    """
    _refuse_unknown_parts(path)
    ranges = list(
        dict.fromkeys(found[2] for found in FORMATTED.finditer(path) if found[1] == RANGE)
    )
    paths: dict[str, None] = {}
    whole = ClockFormat("\0".join(ranges))  # several formats in a path advance together
    for text in whole.list_texts(window) if ranges else [""]:
        parts = dict(zip(ranges, text.split("\0"), strict=False))
        paths[_fill(path, window, parts)] = None
    return list(paths)


def cut_after_times(path: str) -> str | None:
    """Return a path up to the folder or file with its last time; None for a path without times.

    `${YEAR}` and its like become `${DATA_RANGE_START:yyyy}`.
    """
    path = _NAMED_REFERENCE.sub(lambda found: f"${{{START}:{_NAMED[found[1]]}}}", path)
    ends = [found.end() for found in FORMATTED.finditer(path)]
    if not ends:
        return None
    following = path[ends[-1] :]
    return path[: ends[-1]] + following.partition("/")[0]


def build_glob(path: str) -> str:
    """Return the pattern that matches the path of every window."""
    return FORMATTED.sub(lambda found: "/".join("*" for _ in found[2].split("/")), path)


def read_time(path: str, existing: str) -> datetime | None:
    """Return the wall-clock time in the path of an existing folder or file, which ends like `path`.

    Missing parts are the first month, day, hour, minute or second. Returns None for another text.
    """
    found = re.search(f"(?:^|/){_build_expression(path.lstrip('/'))}$", existing)
    if found is None:
        return None
    groups = reversed(found.groupdict().items())  # of several times, the first one counts
    values = {name.partition("_")[2]: int(text) for name, text in groups}
    year = values.get("yyyy", 2000 + values.get("yy", 0))
    month, day, hour, minute, second = (values.get(part, least) for part, least in _LEAST)
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None


def _build_expression(path: str) -> str:
    """Return a regular expression for a path, with a group `pNUMBER_PART` per part of a time."""
    numbers, pieces, at = count(), [], 0
    for found in _VARYING.finditer(path):
        pieces.append(re.escape(path[at : found.start()]))
        if found[2] is None:
            pieces.append({"*": "[^/]*", "?": "[^/]"}.get(found[0], ".*"))
        else:
            pieces += [
                rf"(?P<p{next(numbers)}_{part}>\d{{{len(part)}}})"
                if part in _PARTS
                else re.escape(part)
                for part in _PIECES.findall(found[2])
            ]
        at = found.end()
    return "".join([*pieces, re.escape(path[at:])])


def fill_clock_formats(text: str, window: TimeWindow) -> str:
    """Replace formatted starts and ends in a text other than the path of a source.

    Raises ValueError for an unknown part of a format, and for `${DATA_RANGE:…}`.
    """
    return _fill(text, window, {})


def _fill(text: str, window: TimeWindow, ranges: dict[str, str]) -> str:
    def fill(found: "re.Match[str]") -> str:
        if found[1] == RANGE:
            if found[2] not in ranges:
                raise ValueError(f"{found[0]}: only the path of a source may have several texts")
            return ranges[found[2]]
        return ClockFormat(found[2]).format(
            window.start_clock if found[1] == START else window.end_clock
        )

    _refuse_unknown_parts(text)
    return FORMATTED.sub(fill, text)


def _refuse_unknown_parts(text: str) -> None:
    for found in FORMATTED.finditer(text):
        if mistake := ClockFormat(found[2]).find_mistake():
            raise ValueError(f"{found[0]}: {mistake}")
