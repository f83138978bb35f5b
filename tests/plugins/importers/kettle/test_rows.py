"""Row steps of Kettle as SQL, run on the rows that show Kettle's rules.

Sources: Kettle, Condition.evaluate, ValueMetaBase.compare, DatabaseLookup, EqIndex, StreamLookup,
MergeJoin, ValueMapper, Constant, MemoryGroupBy.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.outputs.models import Output
from logdriven_dagster.plugins.importers.kettle.outputs.own_rows import select_written
from logdriven_dagster.plugins.importers.kettle.rows.models import Reading, RowStep
from logdriven_dagster.plugins.importers.kettle.rows.queries import QUERIES
from logdriven_dagster.plugins.importers.kettle.rows.routing import restrict
from logdriven_dagster.plugins.importers.kettle.rows.sorting import refuse_sorted_comparisons
from tests.plugins.importers.kettle.world import PEOPLE, fields, query, row_step


@pytest.fixture
def ids(spark: Any) -> Callable[[str], list[int]]:
    """The ids of the people that meet a condition."""

    def run(condition: str) -> list[int]:
        found = spark.sql(f"SELECT id FROM {PEOPLE} WHERE {condition} ORDER BY id").collect()
        return [row.id for row in found]

    return run


def compare(left: str, function: str, *, value: str = "", right: str = "", **more: str) -> str:
    """The condition of a Filter rows step; `value` is such as `String:Ann`."""
    kind, _, text = value.partition(":")
    exact = f"<value><type>{kind}</type><text>{text}</text><isnull>N</isnull></value>"
    negated, operator = more.get("negated", "N"), more.get("operator", "")
    return (
        f"<condition><negated>{negated}</negated><operator>{operator}</operator>"
        f"<leftvalue>{left}</leftvalue><function>{escape(function)}</function>"
        f"<rightvalue>{right}</rightvalue>{exact if value else ''}</condition>"
    )


def condition(xml: str, consumer: str = "", targets: str = "") -> str:
    step = row_step("FilterRows", f"{targets}<compare>{xml}</compare>")
    found = restrict(step, consumer)
    assert found is not None
    return found


def both(*parts: str) -> str:
    return f"<condition><negated>N</negated><conditions>{''.join(parts)}</conditions></condition>"


def test_filter_rows_compares_null_as_the_least_value(ids: Callable[[str], list[int]]):
    assert ids(condition(compare("x", "<", value="Integer:10"))) == [3, 4]
    assert ids(condition(compare("x", "<>", value="Number:10"))) == [2, 3, 4]
    assert ids(condition(compare("x", ">=", value="Number:0.0"))) == [1, 2, 4]
    assert ids(condition(compare("name", "=", value="String:Ann"))) == [1]
    assert ids(condition(compare("name", "<=", value="String:Ann"))) == [1, 2, 3]
    assert ids(condition(compare("name", "IS NULL"))) == [2, 3]
    assert ids(condition(compare("name", "IS NOT NULL"))) == [1, 4]
    assert ids(condition(compare("name", "IN LIST", value="String:ann;x"))) == [4]
    assert ids(condition(compare("name", "CONTAINS", value="String:nn", negated="Y"))) == [2, 3]
    assert ids(condition(compare("name", "=", right="name"))) == [1, 2, 3, 4]
    assert ids(condition(compare("id", "<=", right="x").replace("id", "x"))) == [1, 2, 3, 4]
    # Conditions have no precedence.
    parts = (
        compare("x", "=", value="Integer:10"),
        compare("x", "=", value="Integer:20", operator="OR"),
        compare("name", "IS NULL", operator="AND"),
    )
    assert ids(condition(both(*parts))) == [2]
    targets = "<send_true_to>a</send_true_to><send_false_to>b</send_false_to>"
    found = compare("x", ">", value="Integer:0")
    assert ids(condition(found, "b", targets)) == [3, 4]
    # Kettle would convert the number to a text.
    for wrong in (compare("name", "=", value="Integer:1"), compare("x", "=", value="String:1")):
        with pytest.raises(Exception, match="compare it in SQL"):
            ids(condition(wrong))
    cases = "<case><value>Ann</value><target_step>a</target_step></case>"
    cases += "<case><value/><target_step>n</target_step></case>"
    switch = row_step(
        "SwitchCase",
        f"<fieldname>name</fieldname><default_target_step>d</default_target_step>"
        f"<cases>{cases}</cases>",
    )
    assert [ids(str(restrict(switch, end))) for end in "and"] == [[1], [2, 3], [4]]


def test_steps_that_change_fields(spark: Any):
    def run(step: RowStep) -> list[Any]:
        return sorted(map(tuple, spark.sql(query(step)).collect()), key=lambda row: str(row[0]))

    mapped = "<field_to_use>name</field_to_use><target_field>{}</target_field>"
    mapped += "<non_match_default>other</non_match_default><fields>"
    mapped += "<field><source_value>Ann</source_value><target_value>A</target_value></field>{}"
    nothing = "<field><source_value/><target_value>none</target_value></field>"
    new = run(row_step("ValueMapper", mapped.format("m", "") + "</fields>"))
    assert [row[3] for row in new] == ["A", None, None, "other"]
    own = run(row_step("ValueMapper", mapped.format("", nothing) + "</fields>"))
    assert [row[2] for row in own] == ["A", "none", "none", "other"]
    constants = "".join(
        f"<field><name>c{n}</name><type>{kind}</type><nullif>{text}</nullif></field>"
        for n, (kind, text) in enumerate(
            [("String", "it's"), ("Integer", "7"), ("Boolean", "Y"), ("Integer", "")]
        )
    )
    (row, *_) = run(row_step("Constant", f"<fields>{constants}</fields>"))
    assert row[3:] == ("it's", 7, True, None)
    fields = "<field><name>name</name><rename>n</rename></field><field><name>id</name></field>"
    (row, *_) = run(row_step("SelectValues", f"<fields>{fields}</fields>"))
    assert row == ("", 2)
    removed = "<fields><remove><name>name</name></remove><remove><name>x</name></remove></fields>"
    assert run(row_step("SelectValues", removed)) == [(1,), (2,), (3,), (4,)]
    counter = "<use_counter>Y</use_counter><start_at>10</start_at><increment_by>5</increment_by>"
    counter += "<max_value>{}</max_value><valuename>n</valuename>"
    assert [row[3] for row in run(row_step("Sequence", counter.format(99)))] == [10, 15, 20, 25]
    with pytest.raises(Exception, match="where Kettle starts again"):
        run(row_step("Sequence", counter.format(20)))
    group = "<group><field><name>name</name></field></group><fields>"
    for name, kind in (("s", "SUM"), ("n", "COUNT_ALL"), ("a", "COUNT_ANY")):
        group += (
            f"<field><aggregate>{name}</aggregate><subject>x</subject><type>{kind}</type></field>"
        )
    grouped = spark.sql(query(row_step("MemoryGroupBy", f"{group}</fields>"))).collect()
    assert {tuple(row) for row in grouped} == {
        ("Ann", 10.0, 1, 1),
        (None, 20.0, 1, 2),
        ("ann", 0.0, 1, 1),
    }


LOOKUP = """
    <lookup><fail_on_multiple>{}</fail_on_multiple><eat_row_on_failure>{}</eat_row_on_failure>
    <key><name>name</name><field>k</field><condition>=</condition></key>
    <value><name>v</name><rename>found</rename><default>0</default></value></lookup>
"""
TABLE = "VALUES ('Ann', 5), (NULL, 6), ('zoe', 7) AS t(k, v)"
SEVERAL = "VALUES ('Ann', 5), ('Ann', {}), ('zoe', 7), ('zoe', 8) AS t(k, v)"


def test_lookups_find_null_only_in_memory(spark: Any):
    def found(step: RowStep, table: str = TABLE, **options: Any) -> dict[int, Any]:
        text = query(step, **{"it table": table, "other": table}, **options)
        return {row.id: row.found for row in spark.sql(text).collect()}

    def database(xml: str) -> RowStep:
        return row_step("DBLookup", xml)

    plain = LOOKUP.format("N", "N")
    assert found(database(plain)) == {1: 5, 2: 0, 3: 0, 4: 0}
    assert found(database(LOOKUP.format("N", "Y"))) == {1: 5}
    cached = f"<cache>Y</cache><cache_load_all>Y</cache_load_all>{plain}"
    assert found(database(cached)) == {1: 5, 2: 6, 3: 6, 4: 0}
    # The first of equal rows is known; several rows of other people do not matter.
    assert found(database(plain), SEVERAL.format(5))[1] == 5
    with pytest.raises(Exception, match="several rows match a key"):
        found(database(plain), SEVERAL.format(9))
    with pytest.raises(Exception, match="several rows match a key"):
        found(database(LOOKUP.format("Y", "N")), SEVERAL.format(5))
    with pytest.raises(Exception, match="differs from another one only in case"):
        found(database(plain), ignores_case=True)
    exact = "VALUES ('Ann', 5), (NULL, 6), ('ann', 7) AS t(k, v)"
    with pytest.raises(Exception, match="differs from another one only in case"):
        found(database(plain), exact, ignores_case=True)
    with pytest.raises(Exception, match="is not ASCII or ends with a space"):
        found(database(plain), "VALUES ('Zoë', 5) AS t(k, v)", ignores_case=True)
    other = "VALUES ('Bob', 5), (NULL, 6), ('zoe', 7) AS t(k, v)"
    assert found(database(plain), other, ignores_case=True) == {1: 0, 2: 0, 3: 0, 4: 0}
    numbers = LOOKUP.format("N", "N").replace(">name<", ">id<")
    ids = "VALUES (1, 5), (4, 7) AS t(k, v)"
    assert found(database(numbers), ids, ignores_case=True) == {1: 5, 2: 0, 3: 0, 4: 7}
    with pytest.raises(Exception, match="different types"):
        found(database(plain), "VALUES (1, 2) AS t(k, v)")
    stream = f"<from>other</from>{plain}"
    assert found(row_step("StreamLookup", stream, "people", "other")) == {1: 5, 2: 0, 3: 6, 4: 0}


def sort(name: str, field: str, case_sensitive: str = "Y") -> RowStep:
    xml = f"<fields><field><name>{field}</name><ascending>Y</ascending>"
    xml += f"<case_sensitive>{case_sensitive}</case_sensitive></field></fields>"
    return RowStep(name, "SortRows", ET.fromstring(f"<step>{xml}</step>"), ("x",))


def test_a_merge_join_joins_null_with_null(spark: Any):
    def joined(kind: str, *case_sensitive: str) -> set[tuple[Any, ...]]:
        xml = f"<join_type>{kind}</join_type><step1>left</step1><step2>right</step2>"
        xml += "<keys_1><key>name</key></keys_1><keys_2><key>name</key></keys_2>"
        step = row_step("MergeJoin", xml, "left", "right")
        right = "VALUES ('Ann', 5), (NULL, 6), ('zoe', 7) AS t(name, v)"
        cases = case_sensitive or ("Y", "Y")
        before = (sort("left", "name", cases[0]), sort("right", "name", cases[1]))
        found = spark.sql(query(step, *before, left=PEOPLE, right=right)).collect()
        return {(row.id, row.v, row.name_1) for row in found}

    assert joined("INNER") == {(1, 5, "Ann"), (2, 6, None), (3, 6, None)}
    assert joined("FULL OUTER") == {
        *joined("INNER"),
        (4, None, None),
        (None, 7, "zoe"),
    }
    with pytest.raises(Exception, match="whose order Kettle does not know"):
        joined("INNER", "N", "Y")
    # Sort rows without case makes the steps after it compare without case.
    assert joined("INNER", "N", "N") == {*joined("INNER"), (4, 5, "Ann")}


def test_groups_of_rows_sorted_without_case_have_one_text(spark: Any):
    def grouped(texts: str) -> set[tuple[Any, ...]]:
        xml = "<group><field><name>name</name></field></group><fields><field>"
        xml += "<aggregate>n</aggregate><subject>x</subject><type>COUNT_ANY</type></field></fields>"
        step = row_step("GroupBy", xml, "sorted")
        text = query(step, sort("sorted", "name", "N"), sorted=f"VALUES {texts} AS t(name, x)")
        return {tuple(row) for row in spark.sql(text).collect()}

    assert grouped("('a', 1), ('a', 2), ('', 3), (NULL, 4)") == {("a", 2), (None, 2)}
    with pytest.raises(Exception, match="a group has name in several cases"):
        grouped("('a', 1), ('A', 2)")
    with pytest.raises(Exception, match="no single other case"):
        grouped("('straße', 1)")


CONCAT = """
    <separator> </separator><enclosure>"</enclosure><enclosure_forced>{forced}</enclosure_forced>
    <enclosure_fix_disabled>{disabled}</enclosure_fix_disabled>
    <fields><field><name>a</name><type>String</type><trim_type>{trim}</trim_type></field>
    <field><name>b</name><type>None</type></field></fields>
    <ConcatFields><targetFieldName>c</targetFieldName>
    <removeSelectedFields>{removed}</removeSelectedFields></ConcatFields>
"""
OPERATIONS = """
    <fields><field><in_stream_name>a</in_stream_name><out_stream_name/>
    <trim_type>both</trim_type><lower_upper>upper</lower_upper><digits>none</digits></field>
    <field><in_stream_name>a</in_stream_name><out_stream_name>d</out_stream_name>
    <digits>digits_only</digits></field>
    <field><in_stream_name>b</in_stream_name><out_stream_name>e</out_stream_name>
    <remove_special_characters>crlf</remove_special_characters></field></fields>
"""


def calculation(name: str, kind: str, a: str, result: str, **more: str) -> str:
    return (
        f"<calculation><field_name>{name}</field_name><calc_type>{kind}</calc_type>"
        f"<field_a>{a}</field_a><field_b>{more.get('b', '')}</field_b>"
        f"<value_type>{result}</value_type><remove>{more.get('remove', 'N')}</remove></calculation>"
    )


def test_steps_that_compute_fields(spark: Any):
    def run(kind: str, xml: str, values: str, names: str = "a, b") -> list[tuple[Any, ...]]:
        text = query(row_step(kind, xml), people=f"VALUES {values} AS t({names})")
        return [tuple(row) for row in spark.sql(text).collect()]

    plain = {"forced": "N", "disabled": "N", "trim": "none", "removed": "Y"}
    texts = "('Mary', 'Ann Lee'), (NULL, 'x'), ('', NULL), ('a\"b', 'c')"
    joined = [" ".join(each) for each in (("Mary", '"Ann Lee"'), ("", "x"), ("", ""))]
    assert run("ConcatFields", CONCAT.format(**plain), texts) == [
        *((each,) for each in joined),
        ('"a""b" c',),
    ]
    disabled = CONCAT.format(**{**plain, "disabled": "Y", "trim": "both", "removed": "N"})
    assert run("ConcatFields", disabled, "(' a ', 'b c')") == [(" a ", "b c", "a b c")]
    forced = CONCAT.format(**{**plain, "forced": "Y"})
    assert run("ConcatFields", forced, "('a', CAST(NULL AS STRING))") == [('"a" ',)]
    with pytest.raises(Exception, match="a is not a text"):
        run("ConcatFields", CONCAT.format(**plain), "(1, 'b')")
    found = run("StringOperations", OPERATIONS, "('\tx1 2\u00a0 ', 'u\r\nv'), ('  ', NULL)")
    assert found == [("u\r\nv", "X1 2\u00a0", "12", "uv"), (None, None, None, None)]
    dates = calculation("y", "YEAR_OF_DATE", "a", "Integer")
    dates += calculation("m", "MONTH_OF_DATE", "a", "None", remove="Y")
    dates += calculation("w", "DAY_OF_WEEK", "a", "None")
    dates += calculation("n", "NVL", "b", "String", b="b")
    found = run("Calculator", dates, "(DATE'2026-11-29', 'x'), (NULL, '')")
    assert [row[2:] for row in found] == [(2026, 1, "x"), (None, None, None)]
    with pytest.raises(Exception, match="a is not a date"):
        run("Calculator", dates, "('2026-11-29', 'x')")
    null = "<fields><field><name>a</name><value>N/D</value></field></fields>"
    assert run("NullIf", null, "('N/D', 1), ('n/d', 2)") == [(1, None), (2, "n/d")]
    value = "<selectFields>Y</selectFields>" + null.replace("N/D", "0")
    assert run("IfNull", value, "('', 1), ('b', 2)") == [(1, "0"), (2, "b")]


def test_new_combinations_that_a_database_may_take_for_one_fail(spark: Any):
    output = Output(
        step="it",
        connection="shop",
        schema="",
        table="t",
        truncate=False,
        fields=(("a", "a"),),
        inserts_only=True,
        finds_null=True,
        technical_key="tk",
    )

    def numbered(texts: str, own: str = "(1, 'x')") -> list[tuple[Any, ...]]:
        relations = (
            f"(SELECT * FROM VALUES {texts} AS t(a))",
            f"(SELECT * FROM VALUES {own} AS t(tk, a))",
        )
        text = select_written(output, *relations, ignores_case=True)
        return [tuple(row) for row in spark.sql(text).collect()]

    assert sorted(numbered("('x'), ('b'), ('b'), ('a')")) == [(2, "a"), (3, "b")]
    with pytest.raises(Exception, match="new rows differ only in case"):
        numbered("('b'), ('B')")
    with pytest.raises(Exception, match="differs from another one only in case"):
        numbered("('X')")


SORTED = "<fields><field><name>name</name><ascending>{}</ascending>{}</field></fields>"
LOOSE = "<case_sensitive>N</case_sensitive>"


@pytest.mark.parametrize(
    ("ascending", "case", "compared", "outcome"),
    [
        ("Y", LOOSE, compare("name", "=", value="String:Ann"), "refused"),
        ("Y", LOOSE, compare("n", "=", value="String:Ann"), "refused"),
        ("Y", LOOSE, compare("id", "<>", right="name"), "refused"),
        ("Y", LOOSE, compare("name", "IS NULL"), "same"),
        ("Y", LOOSE, compare("name", "<", value="Integer:5"), "same"),
        ("Y", "", compare("name", "=", value="String:Ann"), "same"),
        ("N", "", compare("name", "<", value="Integer:5"), "refused"),
        ("N", "", compare("name", "=", value="Integer:5"), "same"),
    ],
)
def test_a_sort_changes_the_comparisons_after_it(
    ascending: str, case: str, compared: str, outcome: str
):
    xml = f"<step>{SORTED.format(ascending, case)}</step>"
    rename = "<fields><field><name>name</name><rename>n</rename></field></fields>"
    sort_step = RowStep("sort", "SortRows", ET.fromstring(xml), ("people",))
    select = RowStep("select", "SelectValues", ET.fromstring(f"<step>{rename}</step>"), ("sort",))
    step = row_step("FilterRows", f"<compare>{compared}</compare>", "select")
    by_name = {each.name: each for each in (sort_step, select, step)}
    if outcome == "same":
        refuse_sorted_comparisons(step, by_name)
        return
    with pytest.raises(UntranslatableError, match="a sort before it changes"):
        refuse_sorted_comparisons(step, by_name)


def test_the_least_text_after_a_sort_without_case_is_refused():
    xml = "<fields><field><aggregate>m</aggregate><subject>name</subject><type>MIN</type></field>"
    step = row_step("MemoryGroupBy", f"{xml}</fields>", "sorted")
    by_name = {"sorted": sort("sorted", "name", "N"), "it": step}
    with pytest.raises(UntranslatableError, match="a sort before it changes"):
        refuse_sorted_comparisons(step, by_name)


FIELD = (
    "<group><field><name>id</name></field></group><fields><field><name>d</name>{}</field></fields>"
)


@pytest.mark.parametrize(
    ("kind", "xml"),
    [
        ("Unique", "<fields><field><name>id</name></field></fields>"),
        ("GroupBy", "<group><field><name>id</name></field></group>"),
        ("SelectValues", "<fields><meta><name>x</name><type>Number</type></meta></fields>"),
        ("Sequence", "<use_database>Y</use_database><valuename>n</valuename>"),
        ("Constant", fields({"name": "d", "type": "Date", "nullif": "2020/01/01"})),
        ("Constant", FIELD.format("<type>String</type><nullif>${v}</nullif>")),
        ("DBLookup", LOOKUP.format("N", "N").replace(">=<", ">&lt;<")),
        ("MemoryGroupBy", FIELD.format("<type>FIRST</type>")),
        ("Calculator", calculation("n", "MULTIPLY", "x", "Number", b="x")),
        ("Calculator", calculation("n", "WEEK_OF_YEAR", "x", "Integer")),
        (
            "ConcatFields",
            CONCAT.format(forced="N", disabled="N", trim="", removed="N") + "<header>Y</header>",
        ),
        (
            "StringOperations",
            OPERATIONS.replace("<digits>none", "<init_cap>yes</init_cap><digits>none"),
        ),
        ("IfNull", "<selectFields>N</selectFields>"),
    ],
)
def test_what_depends_on_order_or_types_is_refused(kind: str, xml: str):
    with pytest.raises(UntranslatableError):
        query(row_step(kind, xml), **{"it table": "t"})


def test_a_merge_join_of_unsorted_rows_is_refused():
    xml = "<join_type>INNER</join_type><step1>left</step1><step2>right</step2>"
    xml += "<keys_1><key>name</key></keys_1><keys_2><key>name</key></keys_2>"
    with pytest.raises(UntranslatableError, match="is not sorted by name"):
        query(row_step("MergeJoin", xml, "left", "right"), left="t", right="t")


def collect(spark: Any, step: RowStep, *before: RowStep, rows: str) -> list[tuple[Any, ...]]:
    found = [tuple(row) for row in spark.sql(query(step, *before, people=rows)).collect()]
    return sorted(found, key=repr)


def test_row_normaliser_gives_a_row_for_each_type(spark: Any):
    """Source: Kettle, the sample `Row Normaliser`: products by month become rows."""
    given = [
        {"name": f"{month} {what}", "value": month, "norm": what}
        for month in ("jan", "feb")
        for what in ("sales", "count")
    ]
    it = row_step("Normaliser", "<typefield>month</typefield>" + fields(*given))
    table = (
        "VALUES ('a', 1D, 2L, NULL, 4L) AS t(product, `jan sales`, `jan count`, `feb sales`, "
        "`feb count`)"
    )
    table = table.replace("NULL", "CAST(NULL AS DOUBLE)")
    assert collect(spark, it, rows=table) == [("a", "feb", None, 4), ("a", "jan", 1.0, 2)]
    texts = table.replace("CAST(NULL AS DOUBLE)", "'x'")
    with pytest.raises(Exception, match="have different types"):
        collect(spark, it, rows=texts)


def test_row_normaliser_with_fields_in_another_order_is_refused():
    """Kettle fills new fields in the order of the list, whatever their names."""
    given = [
        {"name": "a", "value": "1", "norm": "x"},
        {"name": "b", "value": "1", "norm": "y"},
        {"name": "c", "value": "2", "norm": "y"},
        {"name": "d", "value": "2", "norm": "x"},
    ]
    with pytest.raises(UntranslatableError, match="same order"):
        query(row_step("Normaliser", "<typefield>t</typefield>" + fields(*given)))


def denormaliser(**more: str) -> tuple[RowStep, RowStep]:
    sort = row_step("SortRows", fields({"name": "id", "ascending": "Y"}), "people")
    sort = RowStep("sorted", sort.kind, sort.element, sort.sources)
    targets = [
        {
            "field_name": "value",
            "key_value": key,
            "target_name": key.lower(),
            "target_type": "String",
            "target_aggregation_type": "-",
            **more,
        }
        for key in ("Phone", "Mail")
    ]
    xml = "<key_field>kind</key_field>" + fields({"name": "id"}, group="group") + fields(*targets)
    return row_step("Denormaliser", xml, "sorted"), sort


def pivoted(spark: Any, rows: str, **more: str) -> list[tuple[Any, ...]]:
    it, sort = denormaliser(**more)
    reading = Reading(
        {"sorted": f"(SELECT * FROM {rows})"}, {}, columns={"sorted": ["id", "kind", "value"]}
    )
    sql = QUERIES[it.kind](it, reading, {"sorted": sort, "it": it})
    return sorted(tuple(row) for row in spark.sql(sql).collect())


def test_row_denormaliser_gives_a_field_for_each_key(spark: Any):
    """Source: Kettle, the sample `Row Denormaliser`. Keys that no field names are left out."""
    rows = (
        "VALUES (1, 'Phone', '12'), (1, 'Mail', 'a@b'), (1, 'phone', '99'), (2, 'Fax', '7'), "
        "(2, NULL, '8') AS t(id, kind, value)"
    )
    assert pivoted(spark, rows) == [(1, "12", "a@b"), (2, None, None)]
    twice = "VALUES (1, 'Phone', '12'), (1, 'Phone', NULL) AS t(id, kind, value)"
    with pytest.raises(Exception, match="Kettle keeps the last one"):
        pivoted(spark, twice)
    with pytest.raises(Exception, match="has another type than"):
        pivoted(spark, rows, target_type="Integer")


def test_row_denormaliser_of_other_fields_or_aggregates_is_refused():
    it, sort = denormaliser()
    with pytest.raises(UntranslatableError, match="may have other fields"):
        query(it, sort, sorted=PEOPLE)
    it, sort = denormaliser(target_aggregation_type="SUM")
    reading = Reading({"sorted": "t"}, {}, columns={"sorted": ["id", "kind", "value"]})
    with pytest.raises(UntranslatableError, match="aggregated"):
        QUERIES[it.kind](it, reading, {"sorted": sort, "it": it})


TEXTS = "VALUES (1, 'a_b_'), (2, 'x'), (3, ''), (4, CAST(NULL AS STRING)) AS t(id, v)"


def test_split_fields_gives_the_parts_in_place_of_the_text(spark: Any):
    names = [{"name": n, "type": "String", "length": "-1"} for n in ("one", "two", "three")]
    names[1]["ifnull"] = "-"
    xml = "<splitfield>v</splitfield><delimiter>_</delimiter>" + fields(*names)
    assert collect(spark, row_step("FieldSplitter", xml), rows=TEXTS) == [
        (1, "a", "b", None),
        (2, "x", "-", None),
        (3, None, "-", None),
        (4, None, "-", None),
    ]
    for wrong in ({"type": "Integer"}, {"trimtype": "both"}, {"id": "A="}, {"length": "2"}):
        given = fields({**names[0], **wrong})
        with pytest.raises(UntranslatableError, match="another type than String"):
            query(row_step("FieldSplitter", xml.partition("<fields>")[0] + given))


def test_split_field_to_rows_keeps_a_row_for_an_empty_text(spark: Any):
    xml = (
        "<splitfield>v</splitfield><delimiter>{}</delimiter><newfield>part</newfield>"
        "<rownum>Y</rownum><rownum_field>n</rownum_field><resetrownumber>Y</resetrownumber>"
        "<delimiter_is_regex>{}</delimiter_is_regex>"
    )
    expected = [
        *[(1, "a_b_", "a", 1), (1, "a_b_", "b", 2), (1, "a_b_", None, 3)],
        *[(2, "x", "x", 1), (3, "", None, 1), (4, None, None, 1)],
    ]
    for delimiter, pattern in (("_", "N"), ("[_]", "Y")):
        it = row_step("SplitFieldToRows3", xml.format(delimiter, pattern))
        assert collect(spark, it, rows=TEXTS) == expected
    over = xml.format("_", "N").replace("<resetrownumber>Y", "<resetrownumber>N")
    with pytest.raises(UntranslatableError, match="numbers the parts of all rows"):
        query(row_step("SplitFieldToRows3", over))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"replace_string": "A", "replace_by_string": "c"}, ["cbcb", "x", None, None]),
        (
            {"replace_string": "A", "replace_by_string": "c", "case_sensitive": "yes"},
            ["abab", "x", None, None],
        ),
        # Without a new text, only values that are equal to the old one become NULL.
        ({"replace_string": "X", "replace_by_string": ""}, ["abab", None, None, None]),
        ({"replace_string": "b", "set_empty_string": "Y"}, ["aa", "x", None, None]),
    ],
)
def test_replace_in_string(spark: Any, settings: dict[str, str], expected: list[str | None]):
    """Source: Kettle, ReplaceString.replaceString and buildPattern."""
    it = row_step("ReplaceString", fields({"in_stream_name": "v", **settings}))
    found = collect(spark, it, rows=TEXTS.replace("a_b_", "abab"))
    assert [value for _, value in found] == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"use_regex": "yes"},
        {"whole_word": "yes"},
        {"replace_by_string": "$1"},
        {"replace_field_by_string": "id"},
        {"replace_string": ""},
    ],
)
def test_replace_in_string_by_patterns_and_fields_is_refused(settings: dict[str, str]):
    given = {"in_stream_name": "v", "replace_string": "a", "replace_by_string": "b", **settings}
    with pytest.raises(UntranslatableError):
        query(row_step("ReplaceString", fields(given)))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("0", "2", "ab"),
        ("1", "9", "bcd"),
        ("4", "5", None),
        ("9", "10", None),
        ("0", "-3", "bcd"),
        ("0", "-9", "abcd"),
        ("", "", "abcd"),
    ],
)
def test_strings_cut(spark: Any, start: str, end: str, expected: str | None):
    """Source: Kettle, StringCut.CutString."""
    given = {"in_stream_name": "v", "out_stream_name": "w", "cut_from": start, "cut_to": end}
    it = row_step("StringCut", fields(given))
    rows = "VALUES (1, 'abcd'), (2, NULL) AS t(id, v)"
    assert collect(spark, it, rows=rows) == [(1, "abcd", expected), (2, None, None)]


def test_strings_cut_fails_for_characters_of_two_units(spark: Any):
    it = row_step("StringCut", fields({"in_stream_name": "v", "cut_from": "0", "cut_to": "1"}))
    with pytest.raises(Exception, match="Java counts as two"):
        collect(spark, it, rows="VALUES (1, '😀') AS t(id, v)")


def test_number_range_unites_the_texts_of_all_ranges_with_the_number(spark: Any):
    """Source: Kettle, NumberRangeSet.evaluateDouble: an upper bound is not part of a range."""
    rules = [
        {"lower_bound": "-1.7976931348623157E308", "upper_bound": "5.0", "value": "low"},
        {"lower_bound": "5.0", "upper_bound": "10.0", "value": "mid"},
        {"lower_bound": "8.0", "upper_bound": "12.0", "value": "some"},
        {"lower_bound": "0.0", "upper_bound": "20.0", "value": ""},
    ]
    xml = (
        "<inputField>x</inputField><outputField>range</outputField>"
        "<fallBackValue>unknown</fallBackValue>" + fields(*rules, group="rules", tag="rule")
    )
    it = row_step("NumberRange", xml)
    rows = "VALUES (4.9), (5), (8), (10), (12), (20), (NULL) AS t(x)"
    found = {str(x): text for x, text in collect(spark, it, rows=rows)}
    assert found == {
        "4.9": "low",
        "5.0": "mid",
        "8.0": "mid,some",
        "10.0": "some",
        **dict.fromkeys(("12.0", "20.0", "None"), "unknown"),
    }


def test_unique_rows_by_hash_compares_all_fields(spark: Any):
    stored = "<store_values>Y</store_values>"
    it = row_step("UniqueRowsByHashSet", f"{stored}<fields/>")
    rows = "VALUES (1, 'a'), (1, 'a'), (1, 'A'), (NULL, NULL), (NULL, NULL) AS t(id, v)"
    assert len(collect(spark, it, rows=rows)) == 3
    with pytest.raises(UntranslatableError, match="compare all fields"):
        query(row_step("UniqueRowsByHashSet", stored + fields({"name": "id"})))


def test_unique_rows_by_hash_without_stored_values_is_refused():
    """Source: Kettle, the sample `Unique Rows by Hashset`: 9 of 18 different words are left."""
    with pytest.raises(UntranslatableError, match="compares only hashes"):
        query(row_step("UniqueRowsByHashSet", "<store_values>N</store_values><fields/>"))


def test_get_system_info_adds_times_of_the_run(spark: Any):
    """Source: Kettle, SystemData.getSystemData."""
    given = fields(
        {"name": "now", "type": "system date (fixed)"}, {"name": "day", "type": "today start"}
    )
    it = row_step("SystemInfo", given)
    found = collect(spark, it, rows="VALUES (1), (2) AS t(id)")
    assert len({now for _, now, _ in found}) == 1
    assert all(now.date() == day.date() and day.hour == 0 for _, now, day in found)
    with pytest.raises(UntranslatableError, match="it adds Hostname"):
        query(row_step("SystemInfo", fields({"name": "h", "type": "Hostname"})))


def constant(name: str, kind: str, text: str = "", **more: str) -> dict[str, str]:
    return {"name": name, "type": kind, "nullif": text, **more}


def test_a_data_grid_has_typed_rows(spark: Any):
    """Source: Kettle, DataGrid: an empty text is NULL."""
    kinds = [
        constant("text", "String"),
        constant("n", "Integer"),
        constant("day", "Date", format="dd/MM/yyyy"),
        constant("night", "Date", format="yyyyMMdd HHmmss"),
    ]
    lines = "<line><item>it's</item><item>7</item><item>29/11/2026</item>"
    lines += "<item>20261129 235959</item></line>"
    empty = "<line><item/><item/><item/><item/></line>"
    it = row_step("DataGrid", f"{fields(*kinds)}<data>{lines}{empty}</data>")
    found = spark.sql(query(it)).collect()
    assert [tuple(row) for row in found] == [
        ("it's", 7, datetime(2026, 11, 29), datetime(2026, 11, 29, 23, 59, 59)),
        (None, None, None, None),
    ]
    nothing = spark.sql(query(row_step("DataGrid", f"{fields(*kinds)}<data/>")))
    assert (nothing.columns, nothing.count()) == (["text", "n", "day", "night"], 0)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (constant("d", "Date"), "2026/11/29 00:00:00.000"),  # the mask is that of the computer
        (constant("d", "Date", format="d-M-yyyy"), "1-1-2026"),
        (constant("d", "Date", format="yyyy-MM-dd"), "2026-02-30"),  # which Kettle reads as March 2
        (constant("n", "Number", decimal=","), "1.5"),
        (constant("n", "Integer"), "1,000"),
        (constant("n", "BigNumber"), "1"),
        (constant("n", "String", set_empty_string="Y"), "1"),
        (constant("n", "String", field_null_if="-"), "1"),
        (constant("", "String"), "1"),
    ],
)
def test_constants_that_depend_on_formats_are_refused(field: dict[str, str], text: str):
    xml = f"{fields(field)}<data><line><item>{text}</item></line></data>"
    with pytest.raises(UntranslatableError):
        query(row_step("DataGrid", xml))


def test_generated_rows_are_equal_and_can_be_numbered(spark: Any):
    """Source: Kettle, RowGenerator: the usual start of a table of days."""
    it = row_step("RowGenerator", fields(constant("a", "String", "x")) + "<limit>3</limit>")
    made = RowStep("people", it.kind, it.element, ())
    counter = (
        "<use_counter>Y</use_counter><start_at>1</start_at><increment_by>1</increment_by>"
        "<max_value>9</max_value><valuename>n</valuename>"
    )
    sql = query(row_step("Sequence", counter), made, people=f"({query(it)})")
    assert sorted(tuple(row) for row in spark.sql(sql).collect()) == [("x", n) for n in (1, 2, 3)]
    for xml in ("<limit>${n}</limit>", "<limit>1</limit><never_ending>Y</never_ending>"):
        with pytest.raises(UntranslatableError, match="must be a whole number"):
            query(row_step("RowGenerator", fields(constant("a", "String")) + xml))


def pair(step: RowStep, right: str, *columns: str) -> str:
    relations = {"people": f"(SELECT * FROM {PEOPLE})", "other": f"(SELECT * FROM {right})"}
    known = {"people": ["id", "name", "x"], "other": list(columns)}
    return QUERIES[step.kind](step, Reading(relations, columns=known), {step.name: step})


def test_join_rows_pairs_all_rows_that_meet_the_condition(spark: Any):
    """Source: Kettle, JoinRows: the fields of the main step come first."""
    met = f"<main>people</main><compare>{compare('id', '<', right='id_1')}</compare>"
    it = row_step("JoinRows", met, "other", "people")
    found = spark.sql(pair(it, "VALUES (2), (3) AS t(id)", "id"))
    assert found.columns == ["id", "name", "x", "id_1"]
    assert sorted((row.id, row.id_1) for row in found.collect()) == [(1, 2), (1, 3), (2, 3)]
    every = row_step("JoinRows", "<compare><condition/></compare>", "people", "other")
    assert spark.sql(pair(every, "VALUES (2), (3) AS t(b)", "b")).count() == 8
    assert spark.sql(pair(every, "VALUES (2) AS t(b) WHERE false", "b")).count() == 0


def test_append_streams_appends_rows_with_the_same_fields(spark: Any):
    xml = "<head_name>people</head_name><tail_name>other</tail_name>"
    it = row_step("Append", xml, "people", "other")
    assert spark.sql(pair(it, PEOPLE, "id", "name", "x")).count() == 8
    with pytest.raises(UntranslatableError, match="not known or differ"):
        pair(it, PEOPLE, "id", "x", "name")


def test_select_values_keeps_a_field_that_has_the_type(spark: Any):
    """Source: Kettle, SelectValues.metadataValues, which converts only other types."""

    def changed(rows: str, kind: str, **more: str) -> list[tuple[Any, ...]]:
        meta = {"name": "v", "rename": "v", "type": kind, "length": "0", "precision": "-2", **more}
        it = row_step("SelectValues", fields(*[meta]).replace("field>", "meta>"))
        return collect(spark, it, rows=f"VALUES {rows} AS t(id, v)")

    day = datetime(2026, 11, 29)
    assert changed(f"(1, TIMESTAMP'{day}'), (2, NULL)", "Date") == [(1, day), (2, None)]
    assert changed("(1, DATE'2026-11-29')", "Timestamp", rename="w") == [(1, day.date())]
    assert changed("(1, 7)", "Integer", length="2") == [(1, 7)]
    assert changed("(1, 'x')", "String", length="-2") == [(1, "x")]
    for rows, kind in (
        ("(1, '2026-11-29')", "Date"),
        ("(1, 7.5)", "Integer"),
        ("(1, 7)", "String"),
    ):
        with pytest.raises(Exception, match="has another type than"):
            changed(rows, kind, length="-2")
    with pytest.raises(Exception, match="finer than milliseconds"):
        changed("(1, TIMESTAMP'2026-11-29 00:00:00.0001')", "Date")
    for more in ({"conversion_mask": "yyyy"}, {"precision": "1"}):
        with pytest.raises(UntranslatableError, match="it converts v"):
            changed("(1, 7)", "Date", **more)
