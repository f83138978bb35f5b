"""Dimension lookup / update as steps, run on the rows that show Kettle's rules.

Source: Kettle, DimensionLookup, and its samples `Slowly Changing Dimension`.
"""

from datetime import datetime
from typing import Any

import pytest

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.outputs.dimensions import select_versions
from logdriven_dagster.plugins.importers.kettle.outputs.models import Output
from logdriven_dagster.plugins.importers.kettle.outputs.reading import OUTPUTS
from tests.plugins.importers.conftest import Folder
from tests.plugins.importers.kettle.world import (
    ARGUMENTS,
    Command,
    Kettle,
    maps,
    query,
    row_step,
    rows,
    step,
)

MIN, MAX = datetime(1900, 1, 1), datetime(2199, 12, 31, 23, 59, 59, 999000)
"""Kettle's first and last time."""


def at(day: int) -> datetime:
    return datetime(2026, 11, day)


def dimension(*fields: str, date: str = "changed", method: str = "tablemax", **more: str) -> str:
    """The settings of a dimension by `id`; fields are such as `city:Insert`."""
    columns = "".join(
        f"<field><name>{name}</name><lookup>{name}</lookup><update>{update}</update></field>"
        for name, update in (each.split(":") for each in fields)
    )
    flags = "".join(f"<{name}>{value}</{name}>" for name, value in {"update": "Y", **more}.items())
    return (
        f"<table>dim</table>{flags}<fields><key><name>id</name><lookup>id</lookup></key>"
        f"<date><name>{date}</name><from>date_from</from><to>date_to</to></date>{columns}"
        f"<return><name>tk</name><rename/><creation_method>{method}</creation_method>"
        f"<version>version</version></return></fields>"
    )


def output(*fields: str, **more: str) -> Output:
    return OUTPUTS["DimensionLookup"]("it", row_step("", dimension(*fields, **more)).element)


OWN = (
    "VALUES (0, 1, NULL, NULL, NULL, NULL, NULL, NULL),\n"
    f"(1, 1, TIMESTAMP'{MIN}', TIMESTAMP'{at(5)}', 7, 'Delft', 'x', 'u'),\n"
    f"(2, 2, TIMESTAMP'{at(5)}', TIMESTAMP'{MAX}', 7, 'Leiden', 'x', 'u'),\n"
    f"(3, 1, TIMESTAMP'{MIN}', TIMESTAMP'{MAX}', 8, 'Ghent', 'x', 'u')\n"
    "AS t(tk, version, date_from, date_to, id, city, phone, name)"
)
TYPES = ("city:Insert", "phone:Update", "name:Punch through")


def written(
    spark: Any, changes: str, *types: str, own: str = OWN, ignores_case: bool = False, **more: str
) -> list[tuple[Any, ...]]:
    given = f"(SELECT * FROM VALUES {changes} AS t(id, city, phone, name, changed))"
    sql = select_versions(
        output(*(types or TYPES), **more),
        given,
        f"(SELECT * FROM {own})",
        kind="",
        ignores_case=ignores_case,
    )
    sql = sql.replace(":data_range_start", f"TIMESTAMP'{at(9)}'")
    return sorted(tuple(row) for row in spark.sql(sql).collect())


def test_a_new_key_starts_in_the_first_year(spark: Any):
    new = f"(9, 'Rome', 'x', 'u', TIMESTAMP'{at(9)}')"
    assert written(spark, f"{new}, {new}") == [(4, 1, MIN, MAX, 9, "Rome", "x", "u")]
    years = {"min_year": "1800", "max_year": "2100"}
    ((_, _, first, last, *_),) = written(spark, new, **years)
    assert (first.year, last.year) == (1800, 2100)


def test_a_changed_field_of_type_insert_starts_a_version_and_ends_the_one_before(spark: Any):
    changed = f"(7, 'Rome', 'y', 'u', TIMESTAMP'{at(9)}'), (8, 'Ghent', 'x', 'u', DATE'2026-11-09')"
    assert written(spark, changed) == [
        (2, 2, at(5), at(9), 7, "Leiden", "x", "u"),
        (4, 3, at(9), MAX, 7, "Rome", "y", "u"),
    ]


def test_other_fields_change_this_version_or_all_versions_of_the_key(spark: Any):
    update = f"(7, 'Leiden', 'y', 'u', TIMESTAMP'{at(9)}')"
    assert written(spark, update) == [(2, 2, at(5), MAX, 7, "Leiden", "y", "u")]
    earlier = f"(7, 'Delft', 'y', 'u', TIMESTAMP'{at(2)}')"
    assert written(spark, earlier) == [(1, 1, MIN, at(5), 7, "Delft", "y", "u")]
    through = f"(7, 'Leiden', 'x', CAST(NULL AS STRING), TIMESTAMP'{at(9)}')"
    assert written(spark, through) == [
        (1, 1, MIN, at(5), 7, "Delft", "x", None),
        (2, 2, at(5), MAX, 7, "Leiden", "x", None),
    ]
    both = f"(7, 'Rome', 'x', 'w', TIMESTAMP'{at(9)}')"
    assert written(spark, both) == [
        (1, 1, MIN, at(5), 7, "Delft", "x", "w"),
        (2, 2, at(5), at(9), 7, "Leiden", "x", "w"),
        (4, 3, at(9), MAX, 7, "Rome", "x", "w"),
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ("(8, 'a', '', '', DATE'2026-11-09'), (8, 'b', '', '', DATE'2026-11-09')", "one by one"),
        ("(NULL, 'a', '', '', DATE'2026-11-09')", "id is NULL"),
        ("(8, 'a', '', '', CAST(NULL AS DATE))", "changed must be a date or a timestamp"),
        ("(8, 'a', '', '', '2026-11-09')", "changed must be a date or a timestamp"),
        ("(8, 'a', '', '', DATE'1899-12-31')", "in no version of its key"),
        ("(7, 'a', '', '', DATE'2026-11-02')", "in an earlier version of its key"),
        ("('8', 'a', '', '', DATE'2026-11-09')", "different types"),
        ("(8, 1, '', '', DATE'2026-11-09')", "different types"),
    ],
)
def test_what_kettle_decides_by_order_or_types_fails(spark: Any, changes: str, problem: str):
    with pytest.raises(Exception, match=problem):
        written(spark, changes)


def test_an_older_window_does_not_start_versions_that_it_cannot_end(spark: Any):
    changed = f"(7, 'Rome', 'x', 'u', TIMESTAMP'{at(9)}')"
    own = f"(SELECT *, '2026-11-{{}}T00:00:00Z' AS _window_start FROM {OWN})"
    assert len(written(spark, changed, own=own.format("08"))) == 2
    with pytest.raises(Exception, match="a newer window has changed the table"):
        written(spark, changed, own=own.format("10"))


def test_columns_that_kettle_fills(spark: Any):
    kinds = ("DateInsertedOrUpdated", "DateInserted", "DateUpdated", "LastVersion")
    stamps = "".join(
        f"<field><name/><lookup>{name}</lookup><update>{kind}</update></field>"
        for name, kind in zip("abcd", kinds, strict=True)
    )
    xml = dimension(*TYPES).replace("<return>", f"{stamps}<return>")
    it = OUTPUTS["DimensionLookup"]("it", row_step("", xml).element)
    old = "DATE'2026-11-01'"
    own = f"(SELECT *, {old} AS a, {old} AS b, {old} AS c, tk = 2 AS d FROM {OWN})"

    def stamped(city: str, phone: str) -> list[tuple[Any, ...]]:
        given = f"VALUES (7, '{city}', '{phone}', 'u', TIMESTAMP'{at(9)}')"
        rows = f"(SELECT * FROM {given} AS t(id, city, phone, name, changed))"
        sql = select_versions(it, rows, own, kind="MYSQL", ignores_case=False)
        sql = sql.replace(":data_range_start", f"TIMESTAMP'{at(9)}'")
        return [
            (row.tk, *("now" if day and day > at(10) else day for day in row[8:11]), row.d)
            for row in sorted(spark.sql(sql).collect())
        ]

    assert stamped("Leiden", "y") == [(2, at(9), at(1), at(9), True)]
    assert stamped("Rome", "x") == [
        (2, "now", at(1), "now", False),
        (4, "now", "now", None, True),
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"sequence": "s"}, "numbers of a sequence"),
        (
            {"use_start_date_alternative": "Y", "start_date_alternative": "trans_start"},
            "alternative start date is trans_start",
        ),
        ({"start_date_alternative": "null"}, "alternative start date is null"),
    ],
)
def test_other_keys_and_starts_are_refused(settings: dict[str, str], problem: str):
    with pytest.raises(UntranslatableError, match=problem):
        output(*TYPES, **settings)
    with pytest.raises(UntranslatableError, match="must be different columns"):
        output("version:Insert")
    with pytest.raises(UntranslatableError, match="unknown"):
        output("city:Einfügen")


def test_a_dimension_lookup_finds_the_version_of_a_time(spark: Any):
    xml = dimension("city:String", update="N").replace("<name>city</name>", "<name>town</name>", 1)
    it = row_step("DimensionLookup", xml)
    given = f"VALUES (7, DATE'2026-11-04'), (7, TIMESTAMP'{at(5)}'), (9, DATE'2026-11-04')"
    sql = query(it, people=f"{given} AS t(id, changed)", **{"it table": OWN})
    found = {tuple(row)[2:] for row in spark.sql(sql).collect()}
    assert found == {(1, "Delft"), (2, "Leiden"), (0, None)}
    twice = OWN.replace(f"TIMESTAMP'{MAX}', 7", f"TIMESTAMP'{at(5)}', 7")
    overlapping = twice.replace(
        f"TIMESTAMP'{at(5)}', TIMESTAMP'{at(5)}'", f"TIMESTAMP'{MIN}', DATE'2027-01-01'"
    )
    sql = query(it, people=f"{given} AS t(id, changed)", **{"it table": overlapping})
    with pytest.raises(Exception, match="several versions of its key"):
        spark.sql(sql).collect()
    second = xml.replace("<date>", "<key><name>a</name><lookup>b</lookup></key><date>")
    cached = row_step("DimensionLookup", f"{second}<preload_cache>Y</preload_cache>")
    with pytest.raises(UntranslatableError, match="mistakes keys for fields"):
        query(cached, **{"it table": OWN})
    with pytest.raises(UntranslatableError, match="adds versions before other steps"):
        query(row_step("DimensionLookup", dimension("city:Insert")), **{"it table": OWN})


@pytest.mark.sampled
@pytest.mark.parametrize("method", ["tablemax", "autoinc"])
def test_a_dimension_stays_in_its_database(
    server_folder: Folder, command: Command, spark: Any, method: str
):
    server_folder.spark = spark
    server_folder.configure(timezone="Europe/Amsterdam")  # 1900 has another offset there
    kettle = Kettle(server_folder)
    number = {
        "postgresql": "SERIAL PRIMARY KEY",
        "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    }.get(server_folder.url.get_backend_name(), "INT AUTO_INCREMENT PRIMARY KEY")
    kind = number if method == "autoinc" else "INT PRIMARY KEY"
    moment = "TIMESTAMP" if server_folder.url.get_backend_name() == "postgresql" else "DATETIME"
    server_folder.execute(
        f"CREATE TABLE s (id INT, city VARCHAR(9), changed {moment})",
        "INSERT INTO s VALUES (7, 'Delft', '2026-11-01 08:00:00')",
        "INSERT INTO s VALUES (8, 'Ghent', '2026-11-01 08:00:00')",
        f"CREATE TABLE dim (tk {kind}, version INT, date_from {moment} NULL, date_to {moment} NULL,"
        " id INT, city VARCHAR(9))",
    )
    kettle.job("nightly")
    kettle.table("nightly", "dim")
    read = step("read", "TableInput", sql="SELECT id, city, changed FROM s")
    write = step("write", "DimensionLookup", below=dimension("city:Insert", method=method))
    kettle.ktr("ktr_dim", read, write, hops=(("read", "write"),))
    assert command("import-kettle", *ARGUMENTS, kettle.repository, *maps(server_folder)).code == 0
    assert "stays in its database" in server_folder.text("tables/kettle/dim.yaml")
    server_folder.run_all()
    server_folder.execute(
        "UPDATE s SET city = 'Rome', changed = '2026-11-05 08:00:00' WHERE id = 7"
    )
    for day in (1, 2):
        server_folder.run_all(days=day)
        found = rows(server_folder.url, "SELECT id, city, version, date_from, date_to FROM dim")
        seen = {(*row[:3], *(str(each)[:13] for each in row[3:])) for row in found}
        assert len(found) == 4
        assert seen == {
            (None, None, 1, "None", "None"),
            (7, "Delft", 1, "1900-01-01 00", "2026-11-05 08"),
            (7, "Rome", 2, "2026-11-05 08", "2199-12-31 23"),
            (8, "Ghent", 1, "1900-01-01 00", "2199-12-31 23"),
        }
    keys = sorted(row[0] for row in rows(server_folder.url, "SELECT tk FROM dim"))
    assert keys == [0, 1, 2, 3] or method == "autoinc"
