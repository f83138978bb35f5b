"""Listeners observe windows, and what they raise changes nothing for them."""

import logging
from contextlib import contextmanager, suppress
from importlib.metadata import EntryPoint

import pytest

from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.execution.listeners import registered
from logdriven_dagster.execution.listeners.log_lines import LogLines
from logdriven_dagster.execution.window.listeners import Listeners, WindowListener
from tests.builders import at

NOW = at("2022-01-05 14:00")
METHODS = ("on_claim", "on_end", "observe_run")


class Notes(WindowListener):
    """Notes each call with what it says."""

    def __init__(self):
        self.calls = []

    def on_claim(self, attempts):
        self.calls.append(("claim", [attempt.table for attempt in attempts]))

    def on_end(self, events, application_id):
        self.calls.append(("end", [type(event).__name__ for event in events]))

    def on_lineage(self, events):
        self.calls.append(("lineage", [bool(getattr(event, "lineage", ())) for event in events]))

    def on_interruption(self, attempts, interruption):
        self.calls.append(("interruption", [interruption.step, interruption.reason]))

    def observe_run(self, project, owner):
        return self._within("run", project)

    def observe_windows(self, attempts):
        return self._within("windows", len(attempts))

    def observe_work(self, attempts):
        return self._within("work", len(attempts))

    def observe_part(self, name, owner=None):
        return self._within(name, {})

    @contextmanager
    def _within(self, name, value):
        self.calls.append((name, "begins"))
        try:
            yield lambda **attributes: value.update(attributes)
        except BaseException as error:
            self.calls.append((name, type(error).__name__))
            raise
        self.calls.append((name, value))


class Broken(WindowListener):
    """Raises wherever it can."""

    def on_claim(self, attempts):
        raise RuntimeError("no claim")

    def on_end(self, events, application_id):
        raise RuntimeError("no end")

    def observe_windows(self, attempts):
        raise LookupError("no windows")

    @contextmanager
    def observe_work(self, attempts):
        raise OSError("no work")
        yield

    @contextmanager
    def observe_part(self, name, owner=None):
        def report(**attributes):
            raise ArithmeticError("no report")

        yield report
        raise ValueError("no part")


def listen(world, *listeners):
    runner = world.runner
    runner.listeners = Listeners(listeners)
    return runner


def test_a_window_is_claimed_worked_on_and_ended_within_its_run(world):
    notes = Notes()
    events = list(listen(world, notes).catch_up(NOW, ["ods.numbers"], max_windows=1))
    assert isinstance(events[-1], WindowSucceeded)
    names = [name for name, _ in notes.calls]
    assert names[0] == names[-1] == "run"
    assert [call for call in notes.calls if call[0] in ("claim", "end", "lineage")] == [
        ("claim", ["ods.numbers"]),
        ("end", ["WindowSucceeded"]),
        ("lineage", [True]),
    ]
    inner = names[names.index("claim") + 1 : names.index("lineage")]
    begun = ["windows", "work", "step load", "step load", "publish load", "publish load"]
    assert inner == [*begun, "work", "end", "windows"]
    (rows,) = [value for name, value in notes.calls if name == "step load" and value != "begins"]
    assert rows["rows_read"] == 2


def test_a_step_that_fails_passes_its_error_through_the_part(world):
    notes = Notes()
    world.engine.fail("ods.numbers", "2022-01-01")
    events = list(listen(world, notes).catch_up(NOW, ["ods.numbers"], max_windows=1))
    assert [each for each in events if isinstance(each, WindowFailed)]
    assert ("step load", "TerminalStepError") in notes.calls
    assert ("end", ["WindowFailed"]) in notes.calls


def test_a_runner_that_stops_interrupts_its_windows(world):
    notes = Notes()
    runner = listen(world, notes)
    events = runner.catch_up(NOW, ["ods.numbers"], max_windows=1)
    next(events)
    events.close()
    assert ("interruption", ["load", "interrupted: GeneratorExit"]) in notes.calls
    assert ("windows", "GeneratorExit") in notes.calls
    assert "end" not in [name for name, _ in notes.calls]


def test_what_a_listener_raises_is_logged_once_and_harms_no_window(world, caplog):
    notes = Notes()
    with caplog.at_level(logging.WARNING):
        ended = list(listen(world, Broken(), notes).catch_up(NOW, ["ods.numbers"]))
    assert {type(event) for event in ended[1::2]} == {WindowSucceeded}
    logged = [each.getMessage() for each in caplog.records if "listener_failed" in each.msg]
    assert sorted(logged) == [
        f"listener_failed: Broken: {problem}"
        for problem in (
            "ArithmeticError: no report",
            "LookupError: no windows",
            "OSError: no work",
            "RuntimeError: no claim",
            "ValueError: no part",
        )
    ]
    assert len([name for name, _ in notes.calls if name == "end"]) > 1


def test_an_error_of_the_work_passes_through_every_listener():
    class Swallowing(WindowListener):
        @contextmanager
        def observe_part(self, name, owner=None):
            with suppress(KeyError):
                yield print

    with pytest.raises(KeyError), Listeners([Swallowing()]).observe_part("step load"):
        raise KeyError


def test_ours_are_registered_as_those_of_packages_are(monkeypatch, caplog):
    points = [
        EntryPoint("again", f"{LogLines.__module__}:LogLines", registered.GROUP),
        EntryPoint("away", "nowhere.at_all:Listener", registered.GROUP),
        EntryPoint("other", "builtins:dict", registered.GROUP),
    ]
    points += registered.entry_points_of(registered.GROUP)
    monkeypatch.setattr(registered, "entry_points_of", lambda group: points)
    with caplog.at_level(logging.WARNING):
        made = registered.load_installed_listeners.__wrapped__()
    names = {type(each).__name__ for method in METHODS for each in made.overriding(method)}
    assert names == {"OpenTelemetry", "OpenLineage", "LogLines"}
    assert len(made.overriding("on_interruption")) == 3
    base = f"{WindowListener.__module__}.WindowListener"
    assert [each.getMessage().partition(": ")[2] for each in caplog.records] == [
        "nowhere.at_all:Listener cannot be used: ModuleNotFoundError: No module named 'nowhere'",
        f"builtins:dict cannot be used: TypeError: it must be a subclass of {base}",
    ]
