"""Relations belong to jobs; tables are reusable. Source: DolphinScheduler; checklist rows D."""

import textwrap

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.config.derived.relations import apply_job, apply_relations
from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.errors import InvalidProjectError, UsageError
from tests.builders import table

TABLE = """
    table: {name}
    period: 1 day
    default_start: 2022-01-01
    {extra}
    steps: [{{step: load, sql: SELECT 1 AS one, target: {{type: iceberg}}}}]
"""
KEYS = """
    table: k
    incremental_type: auto_inc_id
    period: 1 day
    {extra}
    steps:
      - step: load
        source: {{type: jdbc, connection: shop, table: orders, key_column: id}}
        target: {{type: iceberg}}
"""


class Folder:
    """A project of small tables and one job."""

    def __init__(self, root):
        self.root = root
        self.write("logdriven.yaml", "project: p\nconnections: {shop: {url: 'sqlite:///s.db'}}")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).strip() + "\n")
        return self

    def tables(self, **extras):
        for name, extra in extras.items():
            text = KEYS if name == "k" else TABLE
            self.write(f"tables/{name}.yaml", text.format(name=name, extra=extra or "owners: []"))
        return self

    def job(self, *relations, tables="[a, b, c]", name="j"):
        lines = "".join(f"\n  - {relation}" for relation in relations) or " []"
        return self.write(f"jobs/{name}.yaml", f"job: {name}\ntables: {tables}\nrelations:{lines}")

    def load(self):
        return load_project(self.root)

    def mistakes(self):
        with pytest.raises(InvalidProjectError) as caught:
            self.load()
        return str(caught.value)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path).tables(a="", b="", c="")


def waits(table):
    return [(d.table, d.condition, d.delay.total_seconds(), d.read) for d in table.depends_on]


def seen(folder, job="j"):
    return apply_job(folder.load(), job).tables


def test_a_relation_is_a_dependency_that_reads_nothing(folder):
    folder.job("{from: a, to: b, condition: failure, delay: 30 min}")
    assert waits(seen(folder)["b"]) == [("a", "failure", 1800, "none")]


def test_a_relation_holds_in_its_own_job_only(folder):
    folder.job("{from: a, to: b}").job("{from: b, to: a}", name="other")
    project = folder.load()
    told = {
        job: [name for name, table in seen(folder, job).items() if waits(table)]
        for job in ("j", "other")
    }
    assert told == {"j": ["b"], "other": ["a"]}
    assert not any(waits(table) for table in project.tables.values())


def test_relations_decide_the_running_order(folder):
    folder.job("{from: [b, c], to: a}")
    assert list(folder.load().tables) == ["a", "b", "c"]
    assert list(seen(folder)) == ["b", "c", "a"]


def test_what_a_table_waits_for_already_it_waits_for_as_well(folder):
    folder.tables(b="depends_on: [{table: a, delay: 10 min}]")
    folder.job("{from: a, to: b, delay: 30 min}", "{from: a, to: b, condition: always}")
    assert waits(seen(folder)["b"]) == [
        ("a", "success", 1800, "window"),
        ("a", "always", 0, "none"),
    ]


def test_a_job_without_relations_sees_the_tables_as_they_are(folder):
    folder.job(name="empty", tables="[a]").job("{from: a, to: b}")
    project = folder.load()
    assert apply_relations(project.tables, project.jobs["empty"]) is project.tables
    assert apply_job(project, None) is project


def test_only_standard_jobs_have_a_view(folder):
    folder.write("jobs/m.yaml", "job: m\ntype: maintenance\nsteps: []")
    for name in ("m", "nothing"):
        with pytest.raises(UsageError, match=f"{name} is a maintenance job|unknown job '{name}'"):
            apply_job(folder.load(), name)


@pytest.mark.parametrize(
    ("relations", "cycle"),
    [
        (["{from: a, to: b}", "{from: b, to: c}", "{from: c, to: a}"], "a → c → b → a"),
        (["{from: a, to: a}"], "a → a"),
    ],
)
def test_a_cycle_of_relations_is_refused_d08(folder, relations, cycle):
    folder.job(*relations)
    names = set(cycle.split(" → "))
    told = folder.mistakes()
    assert "a cycle of relations: " in told
    assert all(name in told.partition("a cycle of relations: ")[2] for name in names)


def test_relations_and_dependencies_together_make_no_cycle_d08(folder):
    folder.tables(b="depends_on: [a]").job("{from: b, to: a, condition: always}")
    assert "a cycle of relations: " in folder.mistakes()


@pytest.mark.parametrize(
    ("relation", "mistake"),
    [
        ("{from: nothing, to: a}", "relations[0].from: unknown table 'nothing'"),
        ("{from: a, to: nothing}", "relations[0].to: nothing is not a table of this job"),
    ],
)
def test_relations_name_known_tables(folder, relation, mistake):
    folder.job(relation)
    assert mistake in folder.mistakes()


def test_the_success_and_the_failure_of_one_table_cannot_both_come(folder):
    folder.tables(b="depends_on: [a]").job("{from: a, to: b, condition: failure}")
    assert "b waits for the success and for the failure of a" in folder.mistakes()


@pytest.mark.parametrize(
    ("relation", "mistake"),
    [
        ("{from: a, to: k}", "relations need time windows; k has numbered windows (auto_inc_id)"),
        ("{from: k, to: a, condition: always}", "condition and delay need time windows"),
        ("{from: k, to: a, delay: 1 hour}", "condition and delay need time windows"),
    ],
)
def test_slices_have_no_windows_in_common_with_time(folder, relation, mistake):
    folder.tables(k="").job(relation, tables="[a, k]")
    assert mistake in folder.mistakes()


def test_a_table_may_wait_for_all_that_a_sliced_one_had_to_load(folder):
    folder.tables(k="").job("{from: k, to: a}", tables="[a, k]")
    assert waits(seen(folder)["a"]) == [("k", "success", 0, "none")]


@pytest.mark.parametrize(
    ("wait", "mistake"),
    [
        (
            "{table: x, managed: false, condition: always}",
            "the status of tables outside this project is unknown",
        ),
        ("{table: a, window: none, delay: 1 hour}", "cannot be combined with `window: none`"),
    ],
)
def test_conditions_are_for_what_is_waited_for(folder, wait, mistake):
    folder.tables(b=f"depends_on: [{wait}]")
    assert mistake in folder.mistakes()


def test_a_copy_of_a_table_forgets_what_was_computed_from_its_old_fields():
    before = table("ods.a")
    assert before.managed_dependencies == ()
    after = before.model_copy(update={"depends_on": (Dependency(table="ods.b"),)})
    assert [dependency.table for dependency in after.managed_dependencies] == ["ods.b"]
