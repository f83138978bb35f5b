"""Selections of tables. Source: dbt, node selection."""

import pytest

from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.errors import UsageError


@pytest.fixture
def project(folder):
    """Orders and rates → clean → daily → report, and an unrelated table."""
    folder.table("ods.orders", "tags: {finance: 'yes', pii: 'yes'}")
    folder.table("ods.rates", "tags: {finance: 'yes', pii: 'no'}").table("ods.people")
    folder.table("dwd.clean", "depends_on: [ods.orders, ods.rates]")
    folder.table("dws.daily", "depends_on: [dwd.clean]\ntags: {finance: 'yes'}")
    folder.table("dws.report", "depends_on: [dws.daily]")
    folder.write("jobs/nightly.yaml", "job: nightly\ntables: [dws.daily, dwd.clean]")
    steps = "steps:\n  - {exec_order: 1, step: compact, upkeep: compact_files}"
    folder.write("jobs/upkeep.yaml", f"job: upkeep\ntype: maintenance\n{steps}")
    return folder.load()


ORDERS, RATES, PEOPLE = "ods.orders", "ods.rates", "ods.people"
CLEAN, DAILY, REPORT = "dwd.clean", "dws.daily", "dws.report"


@pytest.mark.parametrize(
    ("names", "selected"),
    [
        ([], {ORDERS, RATES, PEOPLE, CLEAN, DAILY, REPORT}),
        ([CLEAN], {CLEAN}),
        ([REPORT, ORDERS], {ORDERS, REPORT}),
        (["ods.*"], {ORDERS, RATES, PEOPLE}),
        (["*.r*"], {RATES, REPORT}),
        (["nightly"], {CLEAN, DAILY}),
        (["job:nightly"], {CLEAN, DAILY}),
        (["tag:finance"], {ORDERS, RATES, DAILY}),
        (["tag:pii=yes"], {ORDERS}),
        (["+dws.daily"], {ORDERS, RATES, CLEAN, DAILY}),
        (["ods.orders+"], {ORDERS, CLEAN, DAILY, REPORT}),
        (["+dwd.clean+"], {ORDERS, RATES, CLEAN, DAILY, REPORT}),
        (["1+dws.daily"], {CLEAN, DAILY}),
        (["ods.orders+2"], {ORDERS, CLEAN, DAILY}),
        (["1+dwd.clean+1"], {ORDERS, RATES, CLEAN, DAILY}),
        (["0+dws.daily"], {DAILY}),
        (["job:nightly+"], {CLEAN, DAILY, REPORT}),
        (["tag:pii+1"], {ORDERS, RATES, CLEAN}),
        (["ods.*+"], {ORDERS, RATES, PEOPLE, CLEAN, DAILY, REPORT}),
        (["+dws.report,tag:finance"], {ORDERS, RATES, DAILY}),
        (["ods.*, tag:pii=no", PEOPLE], {RATES, PEOPLE}),
    ],
)
def test_a_selection_names_tables_by_pattern_tag_job_and_neighbours(project, names, selected):
    found = select_tables(project, names)
    assert set(found) == selected
    assert list(found) == [name for name in project.tables if name in selected]  # running order


@pytest.mark.parametrize(
    ("names", "exclude", "selected"),
    [
        ([], ["ods.*"], {CLEAN, DAILY, REPORT}),
        (["+dws.daily"], [RATES], {ORDERS, CLEAN, DAILY}),
        (["ods.orders+"], ["tag:finance", "*.report"], {CLEAN}),
        ([], ["dwd.clean+", "ods.*,tag:pii"], {PEOPLE}),
    ],
)
def test_exclude_removes_tables_by_the_same_syntax(project, names, exclude, selected):
    assert set(select_tables(project, names, exclude)) == selected


@pytest.mark.parametrize(
    ("names", "exclude", "problem"),
    [
        (["ods.order"], [], "unknown table or job 'ods.order' in project .*'ods.orders'"),
        (["+ods.order"], [], "did you mean 'ods.orders'"),
        ([], ["ods.order"], "did you mean 'ods.orders'"),
        (["job:nightl"], [], "unknown job 'nightl' in project .*'nightly'"),
        (["upkeep"], [], "upkeep is a maintenance job, .*`logdriven job run upkeep`"),
        (["ads.*"], [], r"no table of project \w+ matches 'ads\.\*'"),
        (["tag:finanz"], [], "no table of project .* has the tag 'finanz'; .*'finance'"),
        (["tag:pii=maybe"], [], "has the tag 'pii=maybe'"),
        (["a+b"], [], r"'a\+b' is not a selection of tables; use \+NAME"),
        (["+"], [], r"'\+' is not a selection of tables"),
        ([""], [], "'' is not a selection of tables"),
        (["ods.*,dws.*"], [], r"no table is selected by ods\.\*,dws\.\*"),
        (["ods.*"], ["+dws.daily", PEOPLE], "no table is selected by ods.* --exclude .*dws.daily"),
        ([], ["*"], r"no table is selected by --exclude \*"),
    ],
)
def test_a_selection_without_tables_is_refused(project, names, exclude, problem):
    with pytest.raises(UsageError, match=problem):
        select_tables(project, names, exclude)
