"""The plot of a table's windows: an SVG with their states and rows, the median and its band."""

from xml.etree import ElementTree as ET

import pytest

from logdriven_dagster.execution.inspection.plots import Band, PlottedWindow, draw_windows

SVG = "{http://www.w3.org/2000/svg}"


def windows(*rows: int | None, status: str = "SUCCESS") -> list[PlottedWindow]:
    return [PlottedWindow(f"day {n}", status, each) for n, each in enumerate(rows, 1)]


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_band_is_the_middle_half_around_the_median() -> None:
    assert Band.from_windows(windows(1, 2, 3, 4, 5)) == Band(2, 3, 4)
    assert Band.from_windows(windows(1, 2, 3)) is None
    assert Band.from_windows(windows(None, 1, 2, 3, None)) is None


def test_a_window_far_outside_of_the_band_is_unusual() -> None:
    band = Band.from_windows(windows(100, 101, 102, 103))
    assert band is not None
    assert band.is_unusual(0)
    assert band.is_unusual(9_000)
    assert not band.is_unusual(104)


def test_labels_have_the_largest_number_the_median_and_the_first_and_last_window() -> None:
    assert texts(draw_windows(windows(*[10] * 30, 1_234))) == ["10", "day 1", "day 31", "1,234"]


@pytest.mark.parametrize("number", [1, 2, 90])
def test_any_number_of_windows_fits(number: int) -> None:
    svg = draw_windows(windows(*range(number)))
    assert ET.fromstring(svg).get("width") == "520"


def test_windows_without_rows_have_their_state_only() -> None:
    svg = draw_windows(windows(None, None, status="FAILURE"))
    (path,) = ET.fromstring(svg).iter(f"{SVG}path")
    assert "--bad" in path.get("style", "")


def test_hints_are_escaped() -> None:
    svg = draw_windows([PlottedWindow("<day>", "SUCCESS", 3, "a <b> & c")])
    assert "a &lt;b&gt; &amp; c" in svg
    assert texts(svg)[0] == "<day>"
