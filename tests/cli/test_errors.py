"""Errors: one message on stderr, exit code 2, never a secret."""

import pytest

from logdriven_dagster.runlog import RunLog

SECRET = "hunter2-sesame"


def test_every_mistake_of_a_project_is_shown_at_once(shop, logdriven):
    orders, customers = shop / "tables/ods/orders.yaml", shop / "tables/ods/customers.yaml"
    orders.write_text(orders.read_text().replace("path:", "pth:"))
    customers.write_text(customers.read_text().replace("full", "fill"))
    result = logdriven("validate")
    assert (result.code, result.out) == (2, "")
    assert "tables/ods/orders.yaml:8: steps[0].source.pth: unknown field" in result.err
    assert "tables/ods/customers.yaml:4: incremental_type" in result.err
    assert result.err.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in result.err


def test_validate_json_holds_the_mistakes(shop, logdriven):
    orders = shop / "tables/ods/orders.yaml"
    orders.write_text(orders.read_text().replace("header:", "heading:"))
    result = logdriven("validate", "--json")
    assert (result.code, result.json["valid"]) == (2, False)
    (mistake,) = result.json["errors"]
    assert mistake == {
        "path": str(orders),
        "line": 9,
        "field": "steps[0].source.heading",
        "problem": "unknown field",
        "hint": "did you mean 'header'?",
    }
    orders.write_text(orders.read_text().replace("heading:", "header:"))
    assert logdriven("validate", "--json").json == {
        "valid": True,
        "errors": [],
        "warnings": [],
        "missing_here": [],
        "files": [],
    }


def test_a_folder_without_a_project_explains_how_to_get_one(tmp_path, logdriven):
    result = logdriven("plan", "--project", tmp_path)
    assert result.code == 2
    assert "no such file; change to the folder of a project" in result.err
    assert "create a project with `logdriven init FOLDER`" in result.err


def test_the_project_comes_from_option_environment_or_current_folder(
    shop, tmp_path, logdriven, monkeypatch
):
    assert logdriven("validate").code == 0
    monkeypatch.chdir(tmp_path)
    assert logdriven("validate").code == 2
    monkeypatch.setenv("LOGDRIVEN_PROJECT", str(shop))
    assert logdriven("validate").code == 0
    assert logdriven("validate", "--project", tmp_path).code == 2
    assert logdriven("--project", tmp_path, "validate").code == 2
    monkeypatch.setenv("LOGDRIVEN_PROJECT", str(tmp_path))
    assert logdriven("validate", "-p", shop).code == 0
    assert logdriven("--project", shop, "validate").code == 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "ods.orderz"], "did you mean 'ods.orders'?"),
        (["log", "ods.orderz"], "did you mean 'ods.orders'?"),
        (["plan", "--now", "tomorrow"], "'tomorrow' is not a date or time"),
        (["run", "--override", "region"], "expected KEY=VALUE"),
        (["run", "--override", "1a=b"], "expected KEY=VALUE"),
        (["run", "--once", "--latest-only"], "exclude each other"),
        (["run", "--max-windows", "0"], "--max-windows"),
        (["run", "ods.orders", "--from-step", "lod"], "its steps are load"),
        (
            ["run", "ods.orders", "--exclude-steps", "load"],
            "no step of ods.orders that has a target",
        ),
        (["refresh", "ods.orders", "--to", "2022-01-02"], "--from"),
        (["refresh", "ods.orders", "--from", "2022-01-02", "--to", "2022-01-02"], "later than"),
        (["refresh", "ods.x", "--from", "2022-01-01", "--to", "2022-01-02"], "unknown table"),
        (["init", "."], "is not an empty folder"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_usage_exits_with_2(shop, logdriven, arguments, message):
    result = logdriven(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in " ".join(result.err.replace("│", "").split())


def test_a_refresh_off_the_bounds_of_windows_names_the_nearest(shop, logdriven):
    span = ("--from", "2022-01-01 06:00", "--to", "2022-01-03")
    result = logdriven("refresh", "ods.orders", *span)
    assert result.code == 2
    assert "the windows of ods.orders that contain it are [2022-01-01, 2022-01-03)" in result.err


@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_password_never_shows(shop, logdriven, monkeypatch, debug):
    monkeypatch.setenv("RUN_LOG_PASSWORD", SECRET)
    monkeypatch.setenv("LOGDRIVEN_DEBUG", debug)
    monkeypatch.setattr(RunLog, "patience", 0)
    url = "postgresql://me:${env:RUN_LOG_PASSWORD}@127.0.0.1:1/log"
    project = shop / "logdriven.yaml"
    project.write_text(project.read_text() + f"\nrun_log: {url}\n")
    for command in ("plan", "status", "log", "run"):
        result = logdriven(command)
        assert result.code == 2
        assert "cannot use the run log" in result.err
        assert SECRET not in result.out + result.err
        assert ("Traceback" in result.err) == (debug == "1")


def test_an_unset_variable_is_named(shop, logdriven, monkeypatch):
    monkeypatch.delenv("RUN_LOG_PASSWORD", raising=False)
    monkeypatch.setenv("LOGDRIVEN_RUN_LOG", "postgresql://me:${env:RUN_LOG_PASSWORD}@host/log")
    result = logdriven("plan")
    assert result.code == 2
    assert "RUN_LOG_PASSWORD" in result.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "--max-windows", "0"), "'--max-windows': must be at least 1, not '0'"),
        (("run", "--max-windows", "x"), "'--max-windows': must be a whole number, not 'x'"),
        (("ui", "--port", "99999"), "'--port': must be at most 65535, not '99999'"),
        (("report", "--format", "xml"), "'--format': 'xml' is not one of 'csv', 'html', 'json'"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_value_that_an_option_cannot_take_is_reported_in_plain_words(
    shop, logdriven, words, told
):
    result = logdriven(*words)
    assert result.code == 2
    assert told in result.err


def test_the_example_of_a_fix_shows_how_to_name_a_password(shop, logdriven):
    with (shop / "logdriven.yaml").open("a") as file:
        file.write("connections: {erp: {url: 'jdbc:postgresql://h/d'}}\n")
    assert "postgresql://user:${env:PASSWORD}@host/database" in logdriven("validate").err


def test_validate_lists_former_names_of_fields_as_warnings(shop, logdriven):
    file = shop / "tables/ods/orders.yaml"
    file.write_text("fresh: auto\n" + file.read_text())
    found = logdriven("validate", "--json").json
    assert found["valid"]
    assert found["warnings"] == [
        {
            "path": str(file),
            "line": 1,
            "field": "fresh",
            "problem": "was renamed",
            "hint": "write freshness",
        }
    ]
