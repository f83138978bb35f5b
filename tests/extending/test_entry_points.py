"""Entry points of all installed distributions."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from logdriven_dagster import entry_points

GROUP = "logdriven.listeners"


def test_one_that_two_distributions_register_counts_once(monkeypatch: pytest.MonkeyPatch):
    found = [EntryPoint(name, f"toys:{name}", GROUP) for name in ("b", "a", "b")]
    monkeypatch.setattr(entry_points, "_installed", lambda: EntryPoints(found))
    assert [point.name for point in entry_points.entry_points_of(GROUP)] == ["a", "b"]
