"""A plot of a table's windows as SVG: state and rows of each, with the median and its band.

It has no scripts and refers to nothing else. Within a page, its colors follow the page's variables;
as an image of its own they fit light and dark backgrounds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median, quantiles

from logdriven_dagster.execution.notifications import wording
from logdriven_dagster.model.attempts import Status

WIDTH, HEIGHT = 520, 120
_LEFT, _TOP, _BASE, _STRIP = 60, 12, 84, 9
_WIDEST_STEP = 24.0
_FAR = 1.5
"""Widths of the band from which a window is marked as unusual. Source: Tukey's box plot."""
_FEWEST = 4
"""Windows from which there is a band."""
_COLORS = {
    Status.SUCCESS.value: "var(--ok,#5b9bc8)",
    Status.FAILURE.value: "var(--bad,#d9601a)",
    Status.RUNNING.value: "var(--run,#d9a406)",
}
_OTHER, _UNUSUAL = "var(--off,#a0a8b0)", "var(--ok-slow,#2b72a6)"
_TEXT, _BAND = "var(--soft,#7d868f)", "var(--off,#a0a8b0)"


@dataclass(frozen=True, slots=True)
class PlottedWindow:
    """The newest attempt at a window, as the plot shows it."""

    label: str
    status: str
    rows: int | None
    hint: str = ""
    """Text that appears under the pointer; an image of its own shows none."""

    @classmethod
    def from_row(cls, row: wording.Row, hint: str = "") -> "PlottedWindow":
        """Return the window of a row of the run log."""
        label = wording.format_bound(row, "data_range_start").removesuffix(":00")
        rows = wording.total(row, "success_count") if row["status"] == Status.SUCCESS else None
        return cls(label.removesuffix(" 00:00"), row["status"], rows, hint)


@dataclass(frozen=True, slots=True)
class Band:
    """The median of some windows' rows, and the range of the middle half of them."""

    low: float
    middle: float
    high: float

    @classmethod
    def from_windows(cls, windows: Iterable[PlottedWindow]) -> "Band | None":
        """Return the band of the windows with rows; None for too few of them."""
        rows = [window.rows for window in windows if window.rows is not None]
        if len(rows) < _FEWEST:
            return None
        low, _, high = quantiles(rows, n=4, method="inclusive")
        return cls(low, median(rows), high)

    def is_unusual(self, rows: int) -> bool:
        """Return True for a number of rows that is far outside of the band."""
        far = _FAR * (self.high - self.low)
        return not self.low - far <= rows <= self.high + far


def draw_windows(windows: Sequence[PlottedWindow]) -> str:
    """Return the plot of some windows, oldest first; at least one."""
    band = Band.from_windows(windows)
    most = max([window.rows or 0 for window in windows] + [1])
    step = min((WIDTH - _LEFT - 4) / len(windows), _WIDEST_STEP)
    end = _LEFT + step * len(windows)

    def height(rows: float) -> float:
        return (_BASE - _TOP) * rows / most

    shapes: dict[str, list[str]] = {}
    hints = []
    for number, window in enumerate(windows):
        x, wide = _LEFT + step * number, max(step - 2, step * 0.7)
        color = _COLORS.get(window.status, _OTHER)
        shapes.setdefault(color, []).append(
            f"M{x:.1f} {_BASE + 3}h{wide:.1f}v{_STRIP}h-{wide:.1f}z"
        )
        if window.rows is not None:
            tall = max(height(window.rows), 0.8)
            unusual = band is not None and band.is_unusual(window.rows)
            bar = f"M{x:.1f} {_BASE}v-{tall:.1f}h{wide:.1f}v{tall:.1f}z"
            shapes.setdefault(_UNUSUAL if unusual else color, []).append(bar)
        if window.hint:
            place = f'x="{x:.1f}" y="{_TOP}" width="{step:.1f}" height="{_BASE - _TOP + 14}"'
            title = f"<title>{escape(window.hint)}</title>"
            hints.append(f'<rect {place} fill="transparent">{title}</rect>')
    parts = [f'<path d="{"".join(lines)}" style="fill:{c}"/>' for c, lines in shapes.items()]
    parts += [_render_band(band, height, end)] if band else []
    parts += _render_labels(windows, most, end)
    style = "font:11px system-ui,sans-serif;font-variant-numeric:tabular-nums"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" style="{style}">{"".join([*parts, *hints])}</svg>'
    )


def _render_band(band: Band, height: Callable[[float], float], end: float) -> str:
    top, wide = _BASE - height(band.high), end - _LEFT
    tall = max(height(band.high) - height(band.low), 1)
    line = _BASE - height(band.middle)
    clear = line > _TOP + 12  # of the label of the maximum
    return (
        f'<rect x="{_LEFT}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
        f'style="fill:{_BAND};opacity:.28"/>'
        f'<path d="M{_LEFT} {line:.1f}H{end:.1f}" '
        f'style="stroke:{_TEXT};stroke-dasharray:4 3;fill:none"/>'
        + (_render_text(_LEFT - 6, line + 4, f"{band.middle:,.0f}", "end") if clear else "")
    )


def _render_labels(windows: Sequence[PlottedWindow], most: int, end: float) -> list[str]:
    first, last = windows[0].label, windows[-1].label
    labels = [_render_text(_LEFT, HEIGHT - 8, first, "start")]
    if len(windows) > 1 and end - _LEFT > 9 * len(first + last):
        labels.append(_render_text(end, HEIGHT - 8, last, "end"))
    return [*labels, _render_text(_LEFT - 6, _TOP + 4, f"{most:,}", "end")]


def _render_text(x: float, y: float, text: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} style="fill:{_TEXT}">{escape(text)}</text>'
