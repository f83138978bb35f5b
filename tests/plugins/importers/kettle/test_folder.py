"""Tables and jobs from `.ktr` and `.kjb` files, without the tables of the guide."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from tests.plugins.importers.conftest import Folder
from tests.plugins.importers.kettle.world import Kettle, fields, rows, step

START = "<entry><name>Start</name><type>SPECIAL</type><start>Y</start>{}</entry>"
SELECT = "<fields><field><name>id</name><rename>k</rename></field></fields>"


@pytest.fixture
def kettle(folder: Folder) -> Kettle:
    return Kettle(folder)


@pytest.fixture
def brought(kettle: Kettle, command: Callable[..., Any]) -> Callable[..., Any]:
    """Import the folder of files."""

    def run(code: int = 0) -> Any:
        options = ("--repository", kettle.repository, "--map", "KettleShop=shop", "--json")
        result = command("import-kettle", *options)
        assert result.code == code, result.out + result.err
        load_project(kettle.folder.root)
        return result.json

    return run


def kjb(kettle: Kettle, name: str, *entries: str, hops: str, start: str = "") -> Path:
    """Write a job; `hops` is such as `Start>a a>b:failure b>c:always`."""
    texts = []
    for hop in hops.split():
        ends, _, outcome = hop.partition(":")
        begin, end = ends.split(">")
        flags = f"<evaluation>{'N' if outcome == 'failure' else 'Y'}</evaluation>"
        flags += f"<unconditional>{'Y' if outcome == 'always' else 'N'}</unconditional>"
        texts.append(f"<hop><from>{begin}</from><to>{end}</to><enabled>Y</enabled>{flags}</hop>")
    connection = f"<connection><name>KettleShop</name><type>{kettle.kind}</type></connection>"
    path = kettle.repository / "etl" / f"{name}.kjb"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f"<job><name>{name}</name>{connection}<entries>{START.format(start)}{''.join(entries)}"
        f"</entries><hops>{''.join(texts)}</hops></job>"
    )
    return path


def trans(name: str, file: str | None = None) -> str:
    directory = "${Internal.Entry.Current.Directory}"
    filename = f"<filename>{directory}/{file or name}.ktr</filename>"
    return f"<entry><name>{name}</name><type>TRANS</type>{filename}</entry>"


def entry(name: str, kind: str, **fields: str) -> str:
    inner = "".join(f"<{key}>{value}</{key}>" for key, value in fields.items())
    return f"<entry><name>{name}</name><type>{kind}</type>{inner}</entry>"


def depends(folder: Folder, name: str) -> list[tuple[str, str]]:
    found = folder.values(f"tables/kettle/{name}.yaml").get("depends_on", [])
    return [(each["table"], each.get("condition", "success")) for each in found]


def test_each_output_of_a_transformation_is_a_table(kettle: Kettle, brought: Any):
    kettle.ktr(
        "both",
        step("read", "TableInput", sql="SELECT 1 AS id"),
        step("change", "SelectValues", below=SELECT),
        step("a", "TableOutput", table="a"),
        step("numbers", "TableInput", sql="SELECT 2 AS id"),
        step("turn", "DBJoin"),
        step("b", "TableOutput", table="b"),
        hops=(("read", "change"), ("change", "a"), ("numbers", "turn"), ("turn", "b")),
    )
    told = brought(code=1)
    folder = kettle.folder
    assert [each["reason"] for each in told["untranslated"]] == [
        (
            "b: steps without a counterpart here: turn (DBJoin); write it in the query of "
            "the input, or as a `python` step"
        )
    ]
    values = folder.values("tables/kettle/both_a.yaml")
    assert [each["step"] for each in values["steps"]] == ["read", "change", "load"]
    assert values["steps"][1]["sql"] == "SELECT `id` AS `k` FROM `read`"
    assert values["steps"][2]["sql"].split() == ["SELECT", "*", "FROM", "`change`"]
    assert values["release_state"] == "offline"  # no job runs it
    assert "not translated" in folder.text("tables/kettle/both_b.yaml")


def test_a_second_field_of_a_name_gets_a_number(kettle: Kettle, brought: Any):
    lookup = "<lookup><table>towns</table><key><name>town</name><field>name</field>"
    lookup += "<condition>=</condition></key><value><name>id</name></value></lookup>"
    kettle.ktr(
        "join",
        step("read", "TableInput", sql="SELECT id, town FROM s"),
        step("join", "DBLookup", below=lookup),
        step("write", "TableOutput", table="a"),
        hops=(("read", "join"), ("join", "write")),
    )
    assert brought()["untranslated"] == []
    assert "END AS `id_1`" in kettle.folder.text("tables/kettle/join.yaml")


def test_the_columns_of_a_star_are_those_of_the_saved_file(kettle: Kettle, brought: Any):
    keys = "<keys_1><key>id</key></keys_1><keys_2><key>id</key></keys_2>"
    ends = "<join_type>INNER</join_type><step1>one</step1><step2>two</step2>"
    meta = "".join(f"<value-meta><name>{name}</name></value-meta>" for name in ("id", "name"))
    inputs = [
        step(
            name,
            "TableInput",
            sql=f"SELECT * FROM {name} ORDER BY id",
            below=f"<row-meta>{meta}</row-meta>",
        )
        for name in ("one", "two")
    ]
    kettle.ktr(
        "joined",
        *inputs,
        step("join", "MergeJoin", below=ends + keys),
        step("write", "TableOutput", table="t"),
        hops=(("one", "join"), ("two", "join"), ("join", "write")),
    )
    brought()
    sql = kettle.folder.values("tables/kettle/joined.yaml")["steps"][2]["sql"]
    assert "SELECT l.*, r.`id` AS `id_1`, r.`name` AS `name_1`" in sql


def test_numbers_of_rows_without_an_order_are_noted(kettle: Kettle, brought: Any):
    counter = "<use_counter>Y</use_counter><start_at>1</start_at><increment_by>1</increment_by>"
    counter += "<max_value>99</max_value><valuename>n</valuename>"
    for name, order in (("loose", ""), ("ordered", " ORDER BY id")):
        kettle.ktr(
            name,
            step("read", "TableInput", sql=f"SELECT id FROM s{order}"),
            step("count", "Sequence", below=counter),
            step("write", "TableOutput", table=name),
            hops=(("read", "count"), ("count", "write")),
        )
    told = brought()
    assert [each["place"] for each in told["notes"] if "add ORDER BY" in each["reason"]] == [
        "etl/loose.ktr"
    ]


def test_the_hops_of_a_job_are_dependencies(kettle: Kettle, brought: Any):
    for name in ("a", "b", "c", "d"):
        kettle.copies(name, "SELECT 1 AS n", name)
    sql = entry("prepare", "SQL", connection="KettleShop", sql="DELETE FROM a; DELETE FROM b")
    kjb(
        kettle,
        "nightly",
        sql,
        *map(trans, ("a", "b", "c", "d")),
        entry("Done", "SUCCESS"),
        hops="Start>prepare:always prepare>a a>b a>c:failure b>d:always d>Done",
        start="<repeat>Y</repeat><schedulerType>2</schedulerType><hour>5</hour><minutes>30</minutes>",
    )
    told = brought()
    assert told["untranslated"] == []
    folder = kettle.folder
    assert depends(folder, "nightly_prepare") == []
    assert depends(folder, "a") == [("kettle.nightly_prepare", "success")]
    assert depends(folder, "b") == [("kettle.a", "success")]
    assert depends(folder, "c") == [("kettle.a", "failure")]
    assert depends(folder, "d") == [("kettle.b", "always")]
    assert folder.values("jobs/nightly.yaml")["schedule"] == "30 5 * * *"
    assert folder.values("tables/kettle/a.yaml")["delay"] == "330 min"


def test_a_job_within_a_job(kettle: Kettle, brought: Any):
    for name in ("a", "b", "c"):
        kettle.copies(name, "SELECT 1 AS n", name)
    kjb(kettle, "inner", trans("b"), hops="Start>b")
    call = entry("call", "JOB", filename="${Internal.Entry.Current.Directory}/inner.kjb")
    kjb(kettle, "outer", trans("a"), call, trans("c"), hops="Start>a a>call call>c")
    assert brought()["untranslated"] == []
    assert depends(kettle.folder, "b") == [("kettle.a", "success")]
    assert depends(kettle.folder, "c") == [("kettle.b", "success")]
    assert [file for file in kettle.folder.files() if file.startswith("jobs")] == [
        "jobs/outer.yaml"
    ]


@pytest.mark.parametrize(
    ("other", "hops", "reason"),
    [
        (entry("x", "MAIL"), "Start>a a>x", "use notify"),
        (entry("x", "SHELL"), "Start>a a>x", "no counterpart"),
        (trans("b"), "Start>a a>b b>a", "in a loop"),
        (trans("x", "missing"), "Start>a a>x", "not in the folder"),
        (trans("b") + trans("c"), "Start>a a>b a>c", "run in series"),
    ],
)
def test_what_a_job_does_otherwise_is_listed(
    kettle: Kettle, brought: Any, other: str, hops: str, reason: str
):
    for name in ("a", "b", "c"):
        kettle.copies(name, "SELECT 1 AS n", name)
    kjb(kettle, "nightly", trans("a"), other, hops=hops)
    told = brought(code=1)
    assert any(reason in each["reason"] for each in told["untranslated"])
    assert kettle.folder.values("jobs/nightly.yaml")["release_state"] == "offline"


def test_imported_files_run(spark: Any, kettle: Kettle, brought: Any):
    folder = kettle.folder
    folder.execute(
        "CREATE TABLE s (id INT, town VARCHAR(9))",
        "INSERT INTO s VALUES (1, 'Ede'), (2, 'Oss'), (3, NULL)",
        "CREATE TABLE towns (name VARCHAR(9), code INT)",
        "INSERT INTO towns VALUES ('Ede', 7), ('Oss', 8)",
        "CREATE TABLE target (id INT, code INT)",
    )
    lookup = "<lookup><table>towns</table><fail_on_multiple>N</fail_on_multiple>"
    lookup += "<key><name>town</name><field>name</field><condition>=</condition></key>"
    lookup += "<value><name>code</name><default>0</default><type>Integer</type></value></lookup>"
    keep = "<compare><condition><negated>N</negated><leftvalue>id</leftvalue>"
    keep += "<function>&lt;&gt;</function><value><type>Integer</type><text>2</text></value>"
    keep += "</condition></compare>"
    only = "<fields><remove><name>town</name></remove></fields>"
    kettle.ktr(
        "towns",
        step("read", "TableInput", sql="SELECT id, town FROM s"),
        step("look up", "DBLookup", below=lookup),
        step("keep", "FilterRows", below=keep),
        step("drop", "SelectValues", below=only),
        step("write", "TableOutput", table="target", truncate="Y"),
        hops=(("read", "look up"), ("look up", "keep"), ("keep", "drop"), ("drop", "write")),
    )
    kjb(kettle, "nightly", trans("towns"), hops="Start>towns")
    assert brought()["untranslated"] == []
    folder.spark = spark
    folder.run_all()
    assert rows(folder.url, "SELECT id, code FROM target ORDER BY id") == [(1, 7), (3, 0)]


def test_a_transformation_of_cuts_splits_and_pivots_runs(kettle: Kettle, brought: Any, spark: Any):
    folder = kettle.folder
    folder.spark = spark
    folder.execute(
        "CREATE TABLE src (id BIGINT, v VARCHAR(20), q1 BIGINT, q2 BIGINT)",
        "INSERT INTO src VALUES (1, 'a_b', 10, 20), (2, 'c', NULL, 5)",
        "CREATE TABLE dst (id BIGINT, k VARCHAR(9), q1 BIGINT, q2 BIGINT, one VARCHAR(9), "
        "part VARCHAR(9))",
    )
    cut = {"in_stream_name": "v", "out_stream_name": "w", "cut_from": "0", "cut_to": "3"}
    parts = ({"name": name, "type": "String"} for name in ("one", "two"))
    types = ({"name": f"q{n}", "value": f"Q{n}", "norm": "amount"} for n in (1, 2))
    names = [{"name": name} for name in ("id", "one", "w")]
    keys = (
        {"field_name": "amount", "key_value": f"Q{n}", "target_name": f"q{n}"}
        | {"target_type": "Integer"}
        for n in (1, 2)
    )
    range_ = {"lower_bound": "0", "upper_bound": "10", "value": "low"}
    out = ({"name": name} for name in ("id", "k", "q1", "q2", "one", "part"))
    given = {
        "StringCut": fields(cut),
        "FieldSplitter": "<splitfield>v</splitfield><delimiter>_</delimiter>" + fields(*parts),
        "Normaliser": "<typefield>q</typefield>" + fields(*types),
        "SelectValues": fields(*names, {"name": "q"}, {"name": "amount"}),
        "SortRows": fields(*(name | {"ascending": "Y"} for name in names)),
        "Denormaliser": "<key_field>q</key_field>" + fields(*names, group="group") + fields(*keys),
        "SplitFieldToRows3": "<splitfield>w</splitfield><delimiter>_</delimiter>"
        "<newfield>part</newfield>",
        "NumberRange": "<inputField>q2</inputField><outputField>k</outputField>"
        "<fallBackValue>x</fallBackValue>" + fields(range_, group="rules", tag="rule"),
        "UniqueRowsByHashSet": "<store_values>Y</store_values><fields/>",
    }
    steps = [
        step("read", "TableInput", sql="SELECT id, v, q1, q2 FROM src"),
        *(step(kind, kind, below=xml) for kind, xml in given.items()),
        step("out", "SelectValues", below=fields(*out)),
        step("write", "TableOutput", table="dst", truncate="Y"),
    ]
    hops = tuple(pairwise(["read", *given, "out", "write"]))
    kettle.ktr("flow", *steps, hops=hops)
    brought()
    folder.run_all(tables=("kettle.flow",))
    found = rows(folder.url, "SELECT id, k, q1, q2, one, part FROM dst ORDER BY id, part")
    assert found == [
        (1, "x", 10, 20, "a", "a"),
        (1, "x", 10, 20, "a", "b"),
        (2, "low", None, 5, "c", "c"),
    ]


def test_rows_that_no_query_reads_are_loaded(
    folder: Folder, kettle: Kettle, brought: Any, spark: Any
):
    """Generated and listed rows are numbered, joined and appended."""
    folder.spark = spark
    folder.execute("CREATE TABLE dst (n BIGINT, kind VARCHAR(9))")
    counter = (
        "<use_counter>Y</use_counter><start_at>1</start_at><increment_by>1</increment_by>"
        "<max_value>9</max_value><valuename>n</valuename>"
    )
    text = {"name": "kind", "type": "String"}
    grid = fields(text) + "<data><line><item>a</item></line><line><item>b</item></line></data>"
    steps = [
        step("made", "RowGenerator", limit="2", below=fields({"name": "x", "type": "Integer"})),
        step("number", "Sequence", below=counter),
        step("kinds", "DataGrid", below=grid),
        step("pairs", "JoinRows", main="number"),
        step("first", "SelectValues", below=fields({"name": "n"}, {"name": "kind"})),
        step(
            "more",
            "DataGrid",
            below=fields({"name": "n", "type": "Integer"}, text)
            + "<data><line><item>7</item><item>c</item></line></data>",
        ),
        step("all", "Append", head_name="first", tail_name="more"),
        step("write", "TableOutput", table="dst", truncate="Y"),
    ]
    hops = (
        *pairwise(["made", "number", "pairs", "first", "all", "write"]),
        ("kinds", "pairs"),
        ("more", "all"),
    )
    kettle.ktr("flow", *steps, hops=hops)
    brought()
    folder.run_all(tables=("kettle.flow",))
    found = rows(folder.url, "SELECT n, kind FROM dst ORDER BY n, kind")
    assert found == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (7, "c")]
