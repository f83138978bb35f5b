"""One file for many tables. Checklist row B31: templates apply to many processes."""

import pytest

TEMPLATE = """
    for_each: {items}
    table: ods.${{each.name}}
    description: rows of ${{each.name}}
    period: 1 day
    default_start: 2022-01-01
    retries: ${{each.retries}}
    steps:
      - step: load
        source: {{type: csv, path: "data/${{each.name}}/${{DATA_RANGE_START}}.csv"}}
        target: {{type: iceberg}}
"""
TWO = "[{name: a, retries: 2}, {name: b, retries: 3}]"


@pytest.fixture
def template(folder):
    """Write a template with some items; `extra` takes the place of its retries."""

    def write(items, extra=None):
        text = TEMPLATE.format(items=items)
        if extra is not None:
            text = text.replace("retries: ${each.retries}", extra)
        return folder.write("tables/all.yaml", text)

    return write


def test_a_template_stands_for_a_table_for_each_item_b31(template):
    tables = template(TWO).load().tables
    assert list(tables) == ["ods.a", "ods.b"]
    assert tables["ods.b"].description == "rows of b"


def test_a_whole_reference_keeps_the_type_of_its_value(template):
    tables = template("[{name: a, retries: 2, who: [x, y]}]", "owners: ${each.who}").load().tables
    assert tables["ods.a"].owners == ("x", "y")


def test_other_references_stay_what_they_are(template):
    (step,) = template(TWO).load().tables["ods.a"].steps
    assert step.source.path == "data/a/${DATA_RANGE_START}.csv"


def test_items_can_be_plain_values(folder):
    text = TEMPLATE.format(items="[eu, us]").replace("${each.name}", "${each}")
    folder.write("tables/all.yaml", text.replace("${each.retries}", "1"))
    assert list(folder.load().tables) == ["ods.eu", "ods.us"]


def test_an_item_leads_into_what_it_holds(template):
    tables = template("[{name: a, run: {tries: 4}}]", "retries: ${each.run.tries}").load().tables
    assert tables["ods.a"].retries == 4


@pytest.mark.parametrize("form", ["csv", "yaml"])
@pytest.mark.parametrize("name", ["../../outside", "{root}/outside", "link", "linked/outside"])
def test_the_items_lie_in_the_project_also_by_links(folder, template, form, name):
    outside = folder.root.parent / f"outside-{folder.root.name}"
    outside.mkdir()
    (outside / "outside").write_text("name\nnot-for-others\n")
    folder.write("tables/x.txt", "")
    (folder.root / "tables/link").symlink_to(outside / "outside")
    (folder.root / "tables/linked").symlink_to(outside)
    name = name.format(root=outside).replace("../../", f"../../{outside.name}/")
    found = template(f"{{{form}: {name}}}").mistakes()
    assert f"tables/all.yaml:1: for_each.{form}: {name} " in found
    assert "put the file into the project folder" in found
    assert "not-for-others" not in found


def test_an_sql_file_outside_of_the_project_is_not_shown(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "x.sql"
    outside.write_text("not-for-others = (")
    table = "table: ods.t\nsteps:\n- step: s\n  sql_file: link.sql\n  target: {type: iceberg}\n"
    folder.write("tables/t.yaml", table)
    (folder.root / "tables/link.sql").symlink_to(outside)
    found = folder.mistakes()
    assert "is outside of the project folder" in found
    assert "not-for-others" not in found


@pytest.mark.parametrize("place", ["tables/t.yaml", "jobs/j.yaml", "tables", "logdriven.yaml"])
def test_a_definition_outside_of_the_project_is_not_shown(folder, tmp_path_factory, place):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "x.yaml").write_text("not-for-others: 1\n")
    folder.write("tables/x.txt", "")
    folder.write("jobs/x.txt", "")
    link = folder.root / place
    if place == "tables":
        (link / "x.txt").unlink()
        link.rmdir()
    link.unlink(missing_ok=True)
    link.symlink_to(outside if place == "tables" else outside / "x.yaml")
    found = folder.mistakes()
    assert "must not be a symbolic link to a file outside of the project folder" in found
    assert "not-for-others" not in found


@pytest.mark.parametrize("place", ["tables/more", "jobs/more"])
def test_a_folder_that_is_a_link_is_not_passed_over(folder, place):
    folder.write(f"{place.partition('/')[0]}/x.txt", "")
    folder.write("elsewhere/t.yaml", "")
    (folder.root / place).symlink_to(folder.root / "elsewhere")
    found = folder.mistakes()
    assert f"{place}: it must not be a symbolic link to a folder" in found
    assert "move the folder here" in found


def test_a_definition_may_be_a_link_within_the_project(folder):
    """Kubernetes mounts ConfigMaps as such links."""
    folder.table("ods.t")
    (folder.root / "tables/ods.t.yaml").rename(folder.root / "t.1")
    (folder.root / "tables/t.yaml").symlink_to("../t.1")
    assert list(folder.load().tables) == ["ods.t"]


def test_one_table_differs_by_its_override(template):
    items = "[{name: a, retries: 1}, {name: b, retries: 1, override: {retries: 5, timeout: 1 h}}]"
    tables = template(items).load().tables
    assert [table.retries for table in tables.values()] == [1, 5]


def test_an_override_is_merged_into_the_step_of_the_same_name(template):
    items = "[{name: a, override: {steps: [{step: load, source: {sep: ;, header: true}}]}}]"
    (merged,) = template(items, "retries: 1").load().tables["ods.a"].steps
    assert (merged.source.sep, merged.source.header) == (";", True)
    assert merged.source.path.startswith("data/a/")


def test_the_items_of_a_csv_file_and_an_empty_cell_leaves_the_field_out(folder, template):
    folder.write("tables/all.csv", "name, retries\na, 2\nb,")
    tables = template("{csv: all.csv}").load().tables
    assert [table.retries for table in tables.values()] == [2, 0]


def test_the_items_of_a_yaml_file_are_no_table_themselves(folder, template):
    folder.write("tables/items.yaml", "- {name: a, retries: 2}\n- {name: b, retries: 3}")
    assert list(template("{yaml: items.yaml}").load().tables) == ["ods.a", "ods.b"]


def test_jobs_come_from_templates_too(folder):
    folder.table("eu").table("us")
    folder.write("jobs/all.yaml", "for_each: [eu, us]\njob: load_${each}\ntables: ['${each}']")
    assert folder.load().jobs["load_us"].tables == ("us",)


def test_a_mistake_names_the_line_of_the_template_and_the_item(template):
    items = "[{name: a, retries: 1}, {name: b, retries: many}]"
    assert template(items).mistakes() == (
        "tables/all.yaml:6: retries: must be a whole number, not 'many' (item 2, b)"
    )


def test_a_mistake_in_an_override_names_its_own_line(template):
    items = "\n      - {name: a}\n      - name: b\n        override:\n          retires: 5"
    assert "tables/all.yaml:5: retires: unknown field" in template(items, "retries: 1").mistakes()


def test_a_mistake_of_every_item_is_reported_once(template):
    told = template("[{name: a}, {name: b}, {name: c}]", "retires: 1").mistakes()
    assert told == (
        "tables/all.yaml:6: retires: unknown field (item 1, a, and 2 more); did you mean 'retries'?"
    )


def test_an_unknown_reference_lists_what_the_item_has(template):
    told = template("[{name: a, tries: 1}]").mistakes()
    assert told == (
        "tables/all.yaml:6: retries: unknown ${each.retries} (item 1, a); "
        "the item has ${each.name}, ${each.tries}"
    )


def test_two_items_that_make_the_same_table_are_reported_as_such(folder, template):
    told = template("[{name: a, retries: 1}, {name: A, retries: 2}]").mistakes()
    assert "table ods.A is defined twice, first in tables/all.yaml, item 1, a (item 2, A)" in told


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ("3", "for_each: must be a list, {csv: file} or {yaml: file}"),
        ("[]", "for_each: must not be empty"),
        ("{csv: none.csv}", "no such file"),
        ("{csv: bad.csv}", "bad.csv:2: this line must have 2 cells, like the first line"),
        ("[{name: a, override: 5}]", "must be fields, such as {retries: 5}"),
    ],
)
def test_items_that_are_none_are_refused(folder, template, items, told):
    folder.write("tables/bad.csv", "name,retries\na")
    assert told in template(items, "retries: 1").mistakes()
