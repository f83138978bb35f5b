"""`logdriven init`: a project that is valid and explains itself."""

import json

import yaml
from jsonschema import Draft202012Validator


def test_a_new_project_is_valid(shop, logdriven):
    result = logdriven("validate")
    assert (result.code, result.out) == (
        0,
        "Project shop is valid: 3 tables, 2 layers, 0 jobs.\n",
    )


def test_a_folder_with_anything_in_it_is_refused(tmp_path, logdriven):
    (tmp_path / "mine.txt").touch()
    result = logdriven("init", tmp_path)
    assert result.code == 2
    assert "is not an empty folder" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_empty_folder_is_used(tmp_path, logdriven):
    assert logdriven("init", tmp_path).code == 0
    assert logdriven("validate", "--project", tmp_path).code == 0


def test_a_folder_name_that_is_no_identifier_makes_a_project_name(tmp_path, logdriven):
    assert logdriven("init", tmp_path / "2 my-shop").code == 0
    result = logdriven("validate", "-p", tmp_path / "2 my-shop")
    assert result.out.startswith("Project project_2_my_shop is valid")


def test_its_tables_start_three_days_ago_and_end_today(shop, logdriven):
    plan = logdriven("plan", "ods.orders", "--json", "--now", "2022-01-04").json
    assert [window["data_range_start"][:10] for window in plan] == [
        "2022-01-01",
        "2022-01-02",
        "2022-01-03",
    ]


def test_its_files_conform_to_the_schemas_next_to_them(shop):
    for path in [shop / "logdriven.yaml", *shop.glob("tables/**/*.yaml")]:
        text = path.read_text()
        name = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        schema = json.loads((path.parent / name).read_text())
        document = json.loads(json.dumps(yaml.safe_load(text), default=str))
        assert [p.message for p in Draft202012Validator(schema).iter_errors(document)] == []
