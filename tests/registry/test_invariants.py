"""Whatever people do to files and definitions, what the registry promises holds."""

import os
import tempfile
from pathlib import Path

import yaml
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy.engine import make_url

from logdriven_dagster.config.derived.exchange import format_json, format_yaml, parse_export
from logdriven_dagster.errors import InvalidProjectError, UsageError
from logdriven_dagster.execution.definitions.changes import ProjectRegistry, rollback, set_settings
from logdriven_dagster.execution.definitions.exchange import export, import_export
from logdriven_dagster.execution.definitions.registering import author, consult, register
from logdriven_dagster.model.definitions import Kind
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions.rows import DEFINITIONS
from tests.random_examples import examples

NAMES = ("a", "b", "c")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=20)


class Lives(RuleBasedStateMachine):
    """Three tables whose files, settings and versions change in any order."""

    @initialize()
    def make(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        (self.root / "tables").mkdir()
        (self.root / "logdriven.yaml").write_text("project: lives\n")
        self.run_log = RunLog.open(make_url(f"sqlite:///{self.root}/.logdriven/run_log.db"))
        self.exports = [export(self.root)]

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.run_log.engine.dispose()
            self.folder.cleanup()

    @rule(name=st.sampled_from(NAMES), note=TEXTS, retries=st.integers(0, 3), sql=TEXTS)
    def edit(self, name: str, note: str, retries: int, sql: str) -> None:
        values = {
            "table": name,
            "description": note,
            "period": "1 day",
            "default_start": "2022-01-01",
            "retries": retries,
            "steps": [{"step": "load", "sql_file": f"{name}.sql", "target": {"type": "iceberg"}}],
        }
        (self.root / f"tables/{name}.yaml").write_text(yaml.safe_dump(values))
        (self.root / f"tables/{name}.sql").write_text(f"SELECT 1 /*{sql}*/", encoding="utf-8")

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        (self.root / f"tables/{name}.yaml").unlink(missing_ok=True)

    @rule(name=st.sampled_from(NAMES), priority=st.integers(-2, 2) | st.none())
    def set(self, name: str, priority: int | None) -> None:
        value = None if priority is None else str(priority)
        try:
            set_settings(self.root, {name: {"priority": value}}, author("set"))
        except UsageError:
            assert name not in self.registered

    @rule(name=st.sampled_from(NAMES), priority=st.integers(-2, 2))
    def set_by_sql(self, name: str, priority: int) -> None:
        with self.run_log.begin() as conn:
            latest, _ = DEFINITIONS[Kind.TABLE]
            conn.execute(latest.update().where(latest.c.name == name).values(priority=priority))

    @rule(name=st.sampled_from(NAMES), version=st.integers(1, 5))
    def go_back(self, name: str, version: int) -> None:
        try:
            done = rollback(self.root, name, version)
        except UsageError:
            return
        assert consult(self.root).changes == ()
        assert self.registered[name] == done.version

    @rule()
    def apply(self) -> None:
        register(self.root)
        assert register(self.root).changes == ()
        assert consult(self.root).changes == ()

    @rule()
    def keep_export(self) -> None:
        self.exports.append(export(self.root))

    @rule(number=st.integers(0, 20))
    def import_kept(self, number: int) -> None:
        text = format_yaml(self.exports[number % len(self.exports)])
        try:
            found = parse_export(Path("kept.yaml"), text)
            import_export(self.root, found, author("import"))
        except InvalidProjectError:  # it does not go with the tables of today
            return
        assert consult(self.root).changes == ()
        assert import_export(self.root, found, author("import")).changes == ()

    @precondition(lambda self: consult(self.root).changes == ())
    @rule(history=st.booleans())
    def move_to_another_log(self, *, history: bool) -> None:
        exported = export(self.root, history=history)
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/other.db"
            os.environ["LOGDRIVEN_RUN_LOG"] = url
            try:
                for text in (format_yaml(exported), format_json(exported)):
                    assert export_of(parse_export(Path("x"), text)) == exported
                    import_export(self.root, parse_export(Path("x"), text), author("import"))
                    assert export(self.root, history=history) == exported
            finally:
                del os.environ["LOGDRIVEN_RUN_LOG"]

    @property
    def registered(self) -> dict[str, int]:
        with self.run_log.read() as conn:
            latest, _ = DEFINITIONS[Kind.TABLE]
            return {row.name: row.version for row in conn.execute(latest.select())}

    @invariant()
    def the_log_has_every_version_without_gaps(self) -> None:
        registry = ProjectRegistry("lives", self.run_log)
        for kind, (_, log) in DEFINITIONS.items():
            with registry.run_log.read() as conn:
                rows = conn.execute(log.select().order_by(log.c.code, log.c.version)).all()
            by_code: dict[str, list[int]] = {}
            for row in rows:
                by_code.setdefault(row.code, []).append(row.version)
            for versions in by_code.values():
                assert versions == list(range(1, len(versions) + 1)), kind

    @invariant()
    def the_latest_row_is_the_last_one_of_its_log(self) -> None:
        with self.run_log.read() as conn:
            for latest, log in DEFINITIONS.values():
                logged = {}
                for row in conn.execute(log.select().order_by(log.c.version)):
                    logged[row.code] = row
                for row in conn.execute(latest.select()):
                    told = logged.pop(row.code)._mapping
                    for name, value in row._mapping.items():
                        # `set_by_sql` is a version only after the next command.
                        assert told[name] == value or name == "priority"
                assert {row.operation for row in logged.values()} <= {"delete"}


def export_of(found) -> dict:
    """A parsed export as it was written."""
    return found.model_dump(mode="json", exclude_unset=True)


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=examples(20),
    stateful_step_count=10,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
