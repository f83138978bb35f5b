"""Commands that look at definitions and change them, and what `status` says of them."""

import sqlite3

import yaml

NOON = ("--now", "2022-01-04T12:00")
ORDERS = "tables/ods/orders.yaml"


def edit(shop, path: str, before: str, after: str) -> None:
    file = shop / path
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))


def add(shop, line: str) -> None:
    (shop / ORDERS).write_text((shop / ORDERS).read_text() + f"{line}\n")


def test_apply_shows_what_is_new_and_then_nothing(shop, logdriven):
    rehearsed = logdriven("apply", "--dry-run").out
    applied = logdriven("apply")
    assert applied.code == 0
    assert "table    ods.orders  new: version 1" in applied.out
    assert applied.out.replace("written.", "would be written.") == rehearsed
    assert logdriven("apply").out == "No changes.\n"


def test_apply_shows_fields_and_sql_as_a_diff(shop, logdriven):
    logdriven("apply")
    add(shop, "retries: 2")
    edit(shop, "tables/dws/daily_sales.sql", "FROM", "from")
    result = logdriven("apply")
    assert "table    ods.orders  version 1 → 2\n  retries: none → 2\n" in result.out
    assert "    -FROM ods.orders AS orders\n    +from ods.orders AS orders\n" in result.out
    assert result.out.endswith("2 versions written.\n")
    assert "\x1b[" not in result.out


def test_apply_json_holds_each_change_with_its_fields(shop, logdriven):
    logdriven("apply")
    add(shop, "retries: 2")
    told = logdriven("apply", "--json").json
    (change,) = told["changes"]
    assert told["written"] is True
    assert (change["name"], change["operation"], change["version"]) == ("ods.orders", "modify", 2)
    assert change["changed"] == [{"field": "retries", "before": None, "after": 2}]


def test_settings_are_set_for_several_names_and_reset(shop, logdriven):
    out = logdriven("disable", "ods.orders", "ods.customers").out
    assert out.count("enabled: yes → no") == 2
    assert (
        logdriven("enable", "ods.orders", "--operator", "ann").out.count("enabled: no → yes") == 1
    )
    out = logdriven("set", "ods.orders", "retries=3", "timeout=30 min", "release_state=offline").out
    assert "  release_state: online → offline\n  retries: none → 3\n  timeout: none → 30 min" in out
    out = logdriven("set", "ods.orders", "retries=", "--reset", "timeout").out
    assert "retries: 3 → none\n  timeout: 30 min → none" in out
    assert logdriven("set", "ods.orders", "release_state=offline").out == "No changes.\n"


def test_usage_errors_of_set_list_the_accepted_values(shop, logdriven):
    for arguments, problem in (
        (("ods.orders", "retries"), "expected FIELD=VALUE"),
        (("ods.orders",), "no fields given"),
        (("ods.orders", "retires=1"), "did you mean 'retries'"),
        (("ods.order", "retries=1"), "did you mean 'ods.orders'"),
    ):
        result = logdriven("set", *arguments)
        assert result.code == 2
        assert problem in " ".join(result.err.replace("│", " ").split())


def test_history_shows_who_did_what_when_and_why(shop, logdriven):
    logdriven("apply")
    logdriven("set", "ods.orders", "retries=3", "priority=2", "--operator", "ann")
    rows = logdriven("history", "ods.orders", "--json").json
    assert [(row["version"], row["operation"]) for row in rows] == [(1, "add"), (2, "modify")]
    assert (rows[1]["operator"], rows[1]["reason"]) == ("ann", "set")
    assert [field["field"] for field in rows[1]["changed"]] == ["priority", "retries"]
    last = logdriven("history", "ods.orders").out.strip().splitlines()[-1].split()
    assert last[:3] == ["2", "modify", "ann"]
    assert last[-2:] == ["priority,", "retries"]


def test_diff_compares_versions_and_the_file(shop, logdriven):
    logdriven("apply")
    logdriven("set", "ods.orders", "retries=3")
    assert logdriven("diff", "ods.orders").out == (
        "ods.orders  version 1 → version 2\n  retries: none → 3\n"
    )
    assert logdriven("diff", "ods.orders", 1, "file").out.endswith("no difference\n")
    (field,) = logdriven("diff", "ods.orders", 2, "file", "--json").json["changed"]
    assert field == {"field": "retries", "before": 3, "after": None}
    assert logdriven("diff", "ods.orders", "x").code == 2


def test_rollback_reports_that_the_file_differs_and_the_consequence(shop, logdriven):
    logdriven("apply")
    add(shop, "retries: 2")
    logdriven("apply")
    out = logdriven("rollback", "ods.orders", 1).out
    assert "table    ods.orders  version 2 → 3\n  retries: 2 → none\n" in out
    assert f"{ORDERS} has other values. Version 3 is in force until the file changes." in out
    refused = logdriven("rollback", "ods.orders", 9)
    assert (refused.code, refused.err) == (
        2,
        "Error: ods.orders has no version 9; it has 1 to 3\n",
    )


def test_status_shows_where_files_and_registry_disagree(shop, logdriven):
    assert "Not applied yet: s" in logdriven("status", *NOON).out
    logdriven("apply")
    clean = logdriven("status", *NOON).out
    assert not any(word in clean for word in ("applied", "registry", "Settings", "Disabled"))
    add(shop, "retries: 2")
    logdriven("apply")
    logdriven("rollback", "ods.orders", 1)
    logdriven("set", "ods.customers", "enabled=no", "--operator", "ann")
    edit(shop, "tables/dws/daily_sales.sql", "FROM", "from")
    out = logdriven("status", *NOON).out
    assert "Not applied yet: dws.daily_sales (1 field)" in out
    assert "In force: the registry, not the file: ods.orders (version 3)" in out
    assert "  ods.customers enabled yes → no, ann 20" in out
    assert "Disabled: ods.customers" in out
    told = logdriven("status", "--json", *NOON).json["definitions"]
    assert [change["name"] for change in told["unapplied"]] == ["dws.daily_sales"]
    assert told["kept"] == [{"name": "ods.orders", "version": 3}]
    (override,) = told["overrides"]
    assert (override["field"], override["declared"], override["in_force"]) == ("enabled", 1, 0)
    assert override["operator"] == "ann"
    assert told["disabled"] == ["ods.customers"]


def test_status_shows_settings_that_an_sql_client_changed(shop, logdriven):
    logdriven("apply")
    client = sqlite3.connect(shop / ".logdriven/run_log.db")
    client.execute("UPDATE table_definition SET release_state = 'offline'")
    client.commit()
    client.close()
    out = logdriven("status", *NOON).out
    assert "ods.orders release_state online → offline, by SQL" in out
    assert "Offline: dws.daily_sales, ods.customers, ods.orders" in out


def test_looking_writes_nothing_into_the_registry(shop, logdriven):
    for command in (("plan",), ("status",), ("log",), ("apply", "--dry-run"), ("find", "x")):
        assert logdriven(*command).code == 0
    client = sqlite3.connect(shop / ".logdriven/run_log.db")
    assert client.execute("SELECT count(*) FROM project_definition_log").fetchone() == (0,)
    client.close()


def test_find_shows_who_uses_what(shop, logdriven):
    logdriven("apply")
    (row,) = logdriven("find", "--upstream", "ods.orders", "--json").json
    assert (row["name"], row["uses"]) == ("dws.daily_sales", "upstream")
    assert "dws.daily_sales" in logdriven("find", "*sales*").out
    assert logdriven("find", "--connection", "erp").out == "No match in the applied definitions.\n"
    assert logdriven("find").code == 2


def test_an_export_is_imported_as_it_was(shop, logdriven, monkeypatch):
    logdriven("apply")
    logdriven("set", "ods.orders", "retries=3")
    logdriven("export", "--history", "--output", "shop.yaml")
    exported = (shop / "shop.yaml").read_text()
    assert logdriven("export", "--history").out == exported
    assert yaml.safe_load(exported)["project"] == "shop"
    monkeypatch.setenv("LOGDRIVEN_RUN_LOG", "sqlite:///other.db")
    would = logdriven("import", "shop.yaml", "--dry-run").out
    assert "table    ods.orders  new: version 2" in would
    assert logdriven("import", "shop.yaml").out == would.replace("would be written", "written")
    assert logdriven("export", "--history").out == exported
    assert logdriven("import", "shop.yaml").out == "No changes.\n"


def test_what_is_no_export_is_refused(shop, logdriven):
    assert logdriven("import", "nowhere.yaml").code == 2
    assert "not an export of definitions" in logdriven("import", "logdriven.yaml").err
