"""Upstream and downstream of tables and jobs. Checklist row B29."""

import pytest

from logdriven_dagster.config.derived.neighbours import find_neighbours
from logdriven_dagster.errors import UsageError


@pytest.fixture
def project(folder):
    """Given → raw → clean → sums → report; job nightly also lets sums wait for rates."""
    given = "{table: given, managed: false}"
    folder.table("raw", f"depends_on: [{given}]").table("clean", "depends_on: [raw]")
    folder.table("sums", "depends_on: [clean]").table("report", "depends_on: [sums]")
    folder.table("rates")
    folder.write("jobs/load.yaml", "job: load\ntables: [raw, clean]")
    relations = "relations: [{from: rates, to: sums}]"
    folder.write("jobs/nightly.yaml", f"job: nightly\ntables: [sums]\n{relations}")
    folder.write("jobs/publish.yaml", "job: publish\ntables: [report]")
    return folder.load()


def summarize(found, kind="table"):
    return {(n.direction, n.name, n.distance) for n in found if n.kind == kind}


def test_a_table_lists_its_upstream_and_downstream_tables_b29(project):
    found = find_neighbours(project, "sums", "direct")
    assert summarize(found) == {("U", "clean", 1), ("U", "rates", 1), ("D", "report", 1)}


def test_and_the_jobs_that_run_them_b29(project):
    found = find_neighbours(project, "sums", "direct")
    assert summarize(found, "job") == {("U", "load", 1), ("D", "publish", 1)}


def test_transitively_all_of_them_each_by_the_shortest_way_b29(project):
    found = find_neighbours(project, "report", "all")
    assert summarize(found) == {
        ("U", "sums", 1),
        ("U", "clean", 2),
        ("U", "rates", 2),
        ("U", "raw", 3),
        ("U", "given", 4),
    }
    assert summarize(found, "job") == {("U", "nightly", 1), ("U", "load", 2)}


def test_a_job_is_asked_for_its_tables_together(project):
    found = find_neighbours(project, "load", "direct")
    assert summarize(found) == {("U", "given", 1), ("D", "sums", 1)}
    assert summarize(found, "job") == {("D", "nightly", 1)}


def test_it_names_the_reason_and_the_table(project):
    why = {n.name: (n.because, n.managed) for n in find_neighbours(project, "sums", "all")}
    assert why["clean"] == (("depends_on",), True)
    assert why["rates"] == (("nightly",), True)
    assert why["given"] == (("depends_on",), False)
    assert why["load"] == (("clean", "raw"), True)


def test_an_unknown_name_is_reported(project):
    with pytest.raises(UsageError, match="did you mean 'sums'"):
        find_neighbours(project, "sum", "direct")
