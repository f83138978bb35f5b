"""Mistakes in rules, told while the project is loaded and nothing has been read. Checklist S38."""

import pytest

from logdriven_dagster.config.models.quality import resolve_rules
from logdriven_dagster.errors import InvalidProjectError

STEP = """
steps:
  - step: s
    sql: SELECT 1 AS id, 2 AS amount
    target: {{type: parquet}}
    quality: {quality}
"""


def table(folder, quality):
    head = "table: t\nperiod: 1 day\ndefault_start: 2022-01-01"
    return folder.write("tables/t.yaml", head + STEP.format(quality=quality))


def mistakes(folder, quality):
    return table(folder, quality).mistakes()


def test_an_unknown_rule_is_refused_with_the_nearest_one(folder):
    found = mistakes(folder, "{columns: {amount: [not_nul]}}")
    assert "steps[0].quality.columns.amount[0].rule: unknown quality rule 'not_nul'" in found
    assert "did you mean 'not_null'?" in found
    assert found.startswith("tables/t.yaml:8:")


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("{rule: not_null, min: 3}", "not_null has no parameter min; it has none"),
        ("{rule: one_of}", "one_of needs values"),
        ("{rule: in_range}", "in_range needs max or min"),
        ("{rule: in_range, mim: 3}", "unknown field; did you mean 'min'?"),
        ("{rule: not_null, sql: x > 1}", "not_null is built in; give your rule another name"),
        ("{rule: odd, sql: a, python: 'f.py:f'}", "give only one of sql, fails_when and python"),
        ("{rule: odd, sql: 'x >'}", "cannot read this SQL: syntax error at ')'"),
        ("{rule: odd, fails_when: '(x'}", "fails_when: cannot read this SQL"),
        ("{rule: odd, sql: 'SELECT id FORM rows WHERE'}", "cannot read this SQL"),
        ("{rule: odd, python: 'gone.py:f'}", "no such file"),
        ("{rule: not_null, level: fatal}", "level"),
        ("{rule: references, table: ods.x}", "reads ods.x, which is not in depends_on"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(folder, rule, told):
    assert told in mistakes(folder, f"{{id: [id], columns: {{amount: [{rule}]}}}}")


@pytest.mark.parametrize(
    ("quality", "told"),
    [
        ("{id: [id]}", "there are no rules"),
        ("{deduplicate_order_by: amount, rows: []}", "deduplicate_order_by needs id"),
        (
            "{id: [id], deduplicate_order_by: amount downwards}",
            "expected columns, such as `updated_at desc",
        ),
        ("{min_pass: 101, columns: {id: [not_null]}}", "at most 100"),
        ("{columns: {id: [not_null, not_null]}}", "not_null is defined twice"),
        ("{blocking: [notnull], columns: {id: [not_null]}}", "did you mean 'not_null'?"),
        ("{rows: [not_null]}", "not_null needs a column; use it below columns"),
        ("{rows: [unique]}", "unique among rows needs columns"),
        ("{rows: [{rule: odd, sql: ':column > 1'}]}", "odd uses :column"),
        ("{rows: [{rule: odd, sql: SELECT id FROM rows}]}", "odd needs id"),
    ],
)
def test_contradictions_of_a_step_are_refused(folder, quality, told):
    assert told in mistakes(folder, quality)


SNAPSHOT = """\
table: t
period: 1 day
default_start: 2022-01-01
incremental_type: {kind}
steps:
  - step: s
    source: {{type: json, path: a.json, columns: id INT, {field}}}
    target: {{type: iceberg, mode: history, key: [id, shop]}}
    quality: {quality}
"""


@pytest.mark.parametrize(
    ("field", "quality", "problem"),
    [
        (
            "missing_files: no_rows",
            "{blocking: true, columns: {v: [not_null]}}",
            "reads no rows of",
        ),
        (
            "mode: FAILFAST",
            "{columns: {v: [not_null]}}",
            "not_null rejects rows of a snapshot, whose",
        ),
        ("mode: FAILFAST", "{columns: {v: [{rule: not_null, level: warn}]}}", ""),
        ("mode: FAILFAST", "{blocking: true, columns: {v: [not_null]}}", ""),
        ("mode: FAILFAST", "{id: [ID, Shop], deduplicate_order_by: at}", ""),
        ("mode: FAILFAST", "{id: [id], deduplicate_order_by: at}", "add shop of the target's key"),
        (
            "mode: DROPMALFORMED",
            "{blocking: true, columns: {v: [not_null]}}",
            "source.mode: drops rec",
        ),
    ],
)
def test_a_snapshot_of_a_history_leaves_no_key_out(folder, field, quality, problem):
    def refused(kind):
        text = SNAPSHOT.format(kind=kind, field=field, quality=quality)
        written = folder.write("tables/t.yaml", text)
        try:
            written.load()
        except InvalidProjectError as error:
            return str(error)
        return ""

    assert problem in refused("full")
    assert (refused("full") == "") == (problem == "")
    assert refused("time_window") == ""


def test_a_query_that_reads_a_table_without_waiting_for_it_is_refused(folder):
    folder.table("ods.b")
    rule = "{rule: odd, sql: SELECT id FROM rows JOIN ods.b USING (id)}"
    found = mistakes(folder, f"{{id: [id], rows: [{rule}]}}")
    assert "reads ods.b, which is not in depends_on" in found


def test_a_rule_of_the_project_is_known_everywhere_and_wins_over_sharp_etls(folder):
    rules = "{null check: {fails_when: ':column IS NULL', level: warn}}"
    folder.write("logdriven.yaml", f"project: p\nquality_rules: {rules}")
    quality = "{columns: {amount: [null check, duplicated check]}}"
    project = table(folder, quality).load()
    found = resolve_rules(project.table("t").steps[0].quality, project.config.quality_rules)
    assert [(rule.kind, rule.level) for rule in found] == [
        ("fails_when", "warn"),
        ("unique", "warn"),
    ]


def test_a_rule_of_the_project_cannot_be_called_like_a_built_in_one(folder):
    folder.write("logdriven.yaml", "project: p\nquality_rules: {not_null: {sql: ':column > 1'}}")
    assert "not_null is built in; choose another name" in mistakes(folder, "{rows: []}")


def test_only_what_is_written_can_be_looked_at(folder):
    folder.write(
        "tables/t.yaml",
        "{table: t, period: 1 day, default_start: 2022-01-01, steps: [{step: s, sql: SELECT 1, "
        "max_rows: 5}, {step: t, sql: SELECT 1, target: {type: parquet}}]}",
    )
    assert "quality and max_rows need a target" in folder.mistakes()


@pytest.mark.parametrize(
    ("loop", "told"),
    [
        ("{}", "give either step or sql"),
        ("shops", "unknown earlier step 'shops'"),
        ("{sql: SELECT id FROM ods.b}", "reads ods.b, which is not in depends_on"),
    ],
)
def test_a_loop_needs_rows_that_are_there_before(folder, loop, told):
    folder.table("ods.b")
    folder.write(
        "tables/t.yaml",
        "{table: t, period: 1 day, default_start: 2022-01-01, steps: [{step: s, sql: SELECT 1, "
        f"loop_over: {loop}, target: {{type: parquet}}}}]}}",
    )
    assert told in folder.mistakes()
