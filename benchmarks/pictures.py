"""`docs/evidence/benchmarks.svg`: seconds of each contestant as bars, in light and dark pages."""

from collections.abc import Sequence
from html import escape

_WIDTH, _LABELS, _BAR, _GAP, _TITLE = 720, 250, 18, 8, 28
_OURS, _OTHERS, _TEXT = "#4f7cff", "#9aa3b2", "#7d8590"


def draw_bars(groups: Sequence[tuple[str, Sequence[tuple[str, float, bool]]]]) -> str:
    """Return an SVG with a group of bars per title; each is a label, its seconds, and if ours."""
    longest = max((seconds for _, bars in groups for _, seconds, _ in bars), default=1.0)
    parts, top = list[str](), 0
    for title, bars in groups:
        top += _TITLE
        parts.append(_text(0, top - 8, title, weight="600"))
        for label, seconds, is_ours in bars:
            width = (_WIDTH - _LABELS - 70) * seconds / longest
            place = f'x="{_LABELS}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="3"'
            parts += [
                _text(_LABELS - 8, top + 14, label, anchor="end"),
                f'<rect {place} fill="{_OURS if is_ours else _OTHERS}"/>',
                _text(int(_LABELS + width + 8), top + 14, f"{seconds:.1f} s"),
            ]
            top += _BAR + _GAP
    size = f'viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}"'
    style = f'font-family="system-ui, sans-serif" font-size="13" fill="{_TEXT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {style}>'
    return "\n".join([head, *parts, "</svg>", ""])


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "400") -> str:
    attributes = f'x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}"'
    return f"<text {attributes}>{escape(text)}</text>"
