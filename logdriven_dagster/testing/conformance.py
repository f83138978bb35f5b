"""Conformance tests: classes of pytest that any engine, target and source pass.

A package subclasses one in its tests and provides its fixture (docs/testing.md). The tests of the
class state the guarantees on which retries, takeovers and reruns rely.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count

import pytest

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.stretching import find_stretch_obstacle
from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.execution.definitions.homes import enter
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.sessions import Engine, WindowSession
from logdriven_dagster.model.runs import Staged, WindowRun
from logdriven_dagster.runlog.history import logs
from logdriven_dagster.testing.sandbox import memory_run_log

WRITER = "writer"
"""The variable of the table's query: the attempt that stages a row."""


def confirm_lease() -> None:
    """Confirm the lease of an attempt."""


def raise_lost() -> None:
    """Report that another runner has taken the attempt over."""
    raise AttemptLostError("another runner has the window")


@dataclass(kw_only=True)
class Scene:
    """A project with one daily table of one step."""

    project: Project
    start: Callable[[], Engine]
    """Starts an engine of the project as a new process does, without state of earlier ones."""
    _jobs: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def table(self) -> str:
        """The name of the table."""
        (name,) = self.project.tables
        return name

    @property
    def step(self) -> StepConfig:
        """The only step of the table."""
        (step,) = self.project.table(self.table).steps
        return step

    def open_session(self, writer: str, *days: int) -> AbstractContextManager[WindowSession]:
        """Open a session of new attempts at some windows, by default the first one.

        Each attempt has a greater fencing token than those before it.
        """
        grid = self.project.table(self.table).grid
        runs = []
        for day in days or (0,):
            job_id = next(self._jobs)
            window = grid.window(day)
            runs.append(WindowRun(job_id, self.table, window, job_id, {WRITER: writer}))
        return self.start().open_session(runs, self.project)

    def stage(self, session: WindowSession) -> Sequence[Staged]:
        """Stage the step in a session."""
        return session.stage(self.step)


@dataclass(kw_only=True)
class WindowScene(Scene):
    """A scene whose step yields one row per window, with the variable `writer` of the attempt."""

    writers: Callable[[], list[str]]
    """Returns the writers of all published rows, in any order."""
    fences_empty_table: bool = True
    """False if the target cannot hold a fence before its first publication."""

    def run(self, writer: str, *days: int) -> None:
        """Stage and publish windows."""
        with self.open_session(writer, *days) as session:
            self.stage(session)
            session.publish(self.step.step, confirm_lease)


@dataclass(kw_only=True)
class SourceScene(Scene):
    """A scene whose step writes the rows of a source as they are."""

    counts: Sequence[int]
    """The number of rows of each window of the source, from the first one on."""


class WindowConformance:
    """Guarantees of an engine with a target: staging, publication, fences and takeovers."""

    @pytest.fixture
    @abstractmethod
    def scene(self) -> WindowScene:
        """Return the project and the engine under test."""

    def test_staged_rows_are_invisible_until_they_are_published(self, scene: WindowScene) -> None:
        scene.run("first")
        with scene.open_session("second", 1) as session:
            (staged,) = scene.stage(session)
            assert staged.counts.target == 1
            assert scene.writers() == ["first"]
            session.discard()
        assert scene.writers() == ["first"]

    def test_a_rerun_replaces_the_rows_of_its_window(self, scene: WindowScene) -> None:
        scene.run("first")
        scene.run("second", 1)
        scene.run("rerun")
        mode = scene.project.table(scene.table).output.write_mode
        if mode.keeps_windows_apart:
            assert sorted(scene.writers()) == ["rerun", "second"]
        else:
            assert len(scene.writers()) == 1

    def test_publishing_twice_leaves_the_same_rows(self, scene: WindowScene) -> None:
        with scene.open_session("first") as session:
            scene.stage(session)
            published = session.publish(scene.step.step, confirm_lease)
            assert session.publish(scene.step.step, confirm_lease) == published
        assert scene.writers() == ["first"]

    def test_nothing_is_published_without_the_lease(self, scene: WindowScene) -> None:
        scene.run("first")
        with scene.open_session("zombie") as session:
            scene.stage(session)
            with pytest.raises(AttemptLostError):
                session.publish(scene.step.step, raise_lost)
        assert scene.writers() == ["first"]

    def test_an_attempt_that_was_fenced_off_cannot_publish(self, scene: WindowScene) -> None:
        with scene.open_session("zombie") as zombie, scene.open_session("successor") as successor:
            scene.stage(zombie)
            successor.fence()
            if scene.fences_empty_table:
                with pytest.raises(AttemptLostError):
                    zombie.publish(scene.step.step, confirm_lease)
            scene.stage(successor)
            successor.publish(scene.step.step, confirm_lease)
            with pytest.raises(AttemptLostError):
                zombie.publish(scene.step.step, confirm_lease)
        assert scene.writers() == ["successor"]

    def test_an_attempt_that_was_fenced_off_cannot_fence(self, scene: WindowScene) -> None:
        scene.run("first")
        with scene.open_session("zombie") as zombie, scene.open_session("successor") as successor:
            successor.fence()
            with pytest.raises(AttemptLostError):
                zombie.fence()

    def test_a_fence_leaves_the_published_rows(self, scene: WindowScene) -> None:
        scene.run("first")
        with scene.open_session("successor") as session:
            session.fence()
            session.fence()
            assert scene.writers() == ["first"]
            scene.stage(session)
            session.publish(scene.step.step, confirm_lease)
        assert scene.writers() == ["successor"]

    def test_another_process_takes_over_the_staged_rows(self, scene: WindowScene) -> None:
        with scene.open_session("dead") as session:
            (staged,) = scene.stage(session)
        with scene.open_session("successor") as session:
            session.fence()
            (restored,) = session.restore(scene.step, [str(staged.state)]) or ()
            assert (restored.counts, restored.columns) == (staged.counts, staged.columns)
            session.publish(scene.step.step, confirm_lease)
        assert scene.writers() == ["dead"]

    def test_rows_of_a_dead_attempt_are_not_published_twice(self, scene: WindowScene) -> None:
        with scene.open_session("dead") as session:
            (staged,) = scene.stage(session)
            session.publish(scene.step.step, confirm_lease)
        with scene.open_session("successor") as session:
            session.fence()
            # A target may have moved the staged rows.
            if session.restore(scene.step, [str(staged.state)]) is None:
                scene.stage(session)
            session.publish(scene.step.step, confirm_lease)
        assert len(scene.writers()) == 1

    def test_discarding_keeps_rows_that_a_dead_attempt_published(self, scene: WindowScene) -> None:
        with scene.open_session("dead") as session:
            (staged,) = scene.stage(session)
            session.publish(scene.step.step, confirm_lease)
        with scene.open_session("successor") as session:
            session.fence()
            session.restore(scene.step, [str(staged.state)])
            session.discard()
        assert scene.writers() == ["dead"]

    def test_staged_rows_that_were_discarded_are_not_taken_over(self, scene: WindowScene) -> None:
        with scene.open_session("dead") as session:
            (staged,) = scene.stage(session)
            session.discard()
            assert session.restore(scene.step, [str(staged.state)]) is None


class EngineConformance(WindowConformance):
    """Guarantees of an engine: those of its windows, and a catch-up that the run log records."""

    @pytest.mark.parametrize("batch_size", [1, 3])
    def test_a_catch_up_publishes_each_window_once(
        self, scene: WindowScene, batch_size: int
    ) -> None:
        table = scene.project.table(scene.table).model_copy(
            update={"batch_size": batch_size, "variables": {WRITER: "runner"}}
        )
        project, engine = scene.project.with_tables({table.table: table}), scene.start()
        run_log = memory_run_log()
        enter(project, run_log)
        runner = Runner(project, run_log, lambda _: engine, current_owner(None))
        now = table.grid.window(2).end
        assert len(list(runner.catch_up(now))) > 0
        assert list(runner.catch_up(now)) == []
        attempts = runner.run_log.ask(lambda conn: logs.list_attempts(conn, table.table, limit=10))
        assert [each["status"] for each in attempts] == ["SUCCESS"] * 3
        assert {each["application_id"] for each in attempts} == {engine.application_id}
        assert scene.writers() == ["runner"] * 3


class SourceConformance:
    """Guarantees of a source: each window reads its own rows, alone, again or in a batch."""

    @pytest.fixture
    @abstractmethod
    def scene(self) -> SourceScene:
        """Return the project with the source under test."""

    def test_each_window_reads_its_own_rows_again(self, scene: SourceScene) -> None:
        for _ in range(2):
            for day, expected in enumerate(scene.counts):
                with scene.open_session("reader", day) as session:
                    (staged,) = scene.stage(session)
                    assert staged.counts.target == expected, f"window {day}"

    def test_a_batch_reads_the_rows_of_each_window(self, scene: SourceScene) -> None:
        if find_stretch_obstacle(scene.project, scene.project.table(scene.table)) is not None:
            pytest.skip("windows of this table are read one at a time")
        with scene.open_session("reader", *range(len(scene.counts))) as session:
            found = [staged.counts.target for staged in scene.stage(session)]
        assert found == list(scene.counts)
