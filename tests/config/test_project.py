"""What users write: what is accepted, and what every mistake is told."""

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.config.checking.columns import find_unknown_names
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import InvalidProjectError, UsageError

HISTORY = "type: iceberg, mode: history, key: [id]"


def test_tables_stand_in_running_order(folder):
    folder.table("a", "depends_on: [c]").table("b").table("c", "depends_on: [b]")
    assert list(folder.load().tables) == ["b", "c", "a"]


def test_defaults_hold_where_a_table_is_silent(folder):
    folder.write(
        "logdriven.yaml",
        """
        project: p
        timezone: Europe/Berlin
        defaults: {default_start: 2020-02-01, period: 1 hour, retries: 2, on_change: restate}
        """,
    )
    folder.write(
        "tables/t.yaml",
        "{table: t, retries: 5, steps: [{step: s, sql: SELECT 1, target: {type: parquet}}]}",
    )
    table = folder.load().table("t")
    assert (str(table.period), table.retries) == ("1 hour", 5)
    assert table.default_start.isoformat() == "2020-02-01T00:00:00+01:00"
    assert table.on_change.restates


def test_sharp_etl_start_texts_are_read(folder):
    folder.table("t")
    file = folder.root / "tables/t.yaml"
    file.write_text(file.read_text().replace("2022-01-01", "20220101000000"))
    assert f"{folder.load().table('t').default_start:%Y-%m-%d}" == "2022-01-01"


def test_an_unknown_field_names_file_line_field_and_fix_s43(folder):
    folder.table("t", "retry: 3")
    assert folder.mistakes() == ("tables/t.yaml:4: retry: unknown field; did you mean 'retries'?")


def test_every_mistake_of_a_project_is_reported_at_once(folder):
    folder.table("a", "ordered: perhaps").table("b", "depends_on: [nowhere]")
    folder.write("tables/c.yaml", "table: [")
    found = folder.mistakes().splitlines()
    assert [line.split(":")[0] for line in found] == [
        "tables/a.yaml",
        "tables/c.yaml",
        "tables/b.yaml",
    ]


def test_two_files_of_one_table_are_refused_s43(folder):
    folder.table("ods.t").write(
        "tables/again.yaml", (folder.root / "tables/ods.t.yaml").read_text()
    )
    assert "table ods.t is defined twice, first in" in folder.mistakes()


def test_a_cycle_is_printed(folder):
    folder.table("a", "depends_on: [c]").table("b", "depends_on: [a]")
    folder.table("c", "depends_on: [b]")
    assert "a cycle of dependencies: a → c → b → a" in folder.mistakes().replace(
        "b → a → c → b", "a → c → b → a"
    ).replace("c → b → a → c", "a → c → b → a")


def test_a_table_that_waits_for_itself_is_a_cycle(folder):
    folder.table("a", "depends_on: [a]")
    assert "a cycle of dependencies: a → a" in folder.mistakes()


def test_an_unknown_dependency_gets_the_nearest_name_k07(folder):
    folder.table("ods.flights").table("b", "depends_on: [ods.flight]")
    assert (
        "depends_on[0]: unknown table 'ods.flight'; did you mean 'ods.flights'?; "
        "or write {table: ods.flight, managed: false} if another system manages it"
    ) in folder.mistakes()


def test_an_unmanaged_dependency_needs_no_table(folder):
    folder.table("b", "depends_on: [{table: raw.x, managed: false}]")
    assert folder.load().table("b").managed_dependencies == ()


def test_a_query_reads_only_what_it_waits_for(folder):
    folder.table("ods.a").table("b", sql="SELECT * FROM ods.a")
    assert "steps[0].sql: reads ods.a, which is not in depends_on; add ods.a" in folder.mistakes()


def test_a_mere_mention_of_a_table_is_no_read(folder):
    folder.table("ods.a").table("b", sql="SELECT 'ods.a' AS name")
    assert set(folder.load().tables) == {"ods.a", "b"}


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/b", "a..b", "a b", "", ".hidden", "ä"])
def test_a_table_name_never_escapes_the_warehouse(folder, name):
    folder.write("tables/x.yaml", f"table: {name!r}\nperiod: 1\ndefault_start: 2022-01-01\n")
    assert "is not a table name" in folder.mistakes()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("period", "0", "a period must be at least one minute"),
        ("period", "-5", "is not a period"),
        ("period", "yearly", "is not a period"),
        ("default_start", "someday", "is not a date or time"),
        ("default_start", "2022-02-30", "is not a date or time"),
        ("default_start", "true", "must be a date or time"),
    ],
)
def test_a_period_or_start_that_cannot_work_is_refused(folder, field, value, message):
    folder.write(
        "tables/t.yaml",
        f"""
        table: t
        {"default_start: 2022-01-01" if field == "period" else "period: 1440"}
        {field}: {value}
        steps: [{{step: s, sql: SELECT 1, target: {{type: iceberg}}}}]
        """,
    )
    assert message in folder.mistakes()


@pytest.mark.parametrize(
    ("period", "start"),
    [("1 month", "2022-01-31"), ("1 quarter", "2022-01-30"), ("1 year", "2024-02-29")],
)
def test_months_and_years_do_not_start_on_days_that_not_all_have(folder, period, start):
    folder.table("t")
    file = folder.root / "tables/t.yaml"
    text = file.read_text().replace("1 day", period).replace("2022-01-01", start)
    file.write_text(text)
    assert "a period of months must start on day 1 to 28" in folder.mistakes()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("{step: s, target: {type: iceberg}}", "a step needs a source, sql, sql_file or python"),
        ("{step: s, sql: SELECT 1}", "no step has a target"),
        ("{step: s, sql: x, python: 'a:b', target: {type: iceberg}}", "only one of sql"),
        ("{step: s, sql: x, target: {type: iceberg, mode: upsert}}", "mode upsert needs key"),
        (
            "{step: s, sql: x, target: {type: icberg}}",
            "unknown type 'icberg'; did you mean 'iceberg'?",
        ),
        ("{step: s, sql_file: none.sql, target: {type: iceberg}}", "no such file"),
        ("{step: s, python: 'none.py:f', target: {type: iceberg}}", "no such file"),
        ("{step: source, sql: x, target: {type: iceberg}}", "must not have the name source"),
        (
            "{step: s, source: {type: jdbc, connection: pg, table: t}, target: {type: iceberg}}",
            "steps[0].source.connection: unknown connection 'pg'",
        ),
        ("{step: s, source: {type: csv, pth: x}, target: {type: iceberg}}", "mean 'path'?"),
    ],
)
def test_a_step_that_cannot_work_is_refused(folder, step, message):
    folder.write(
        "tables/t.yaml", f"table: t\nperiod: 1\ndefault_start: 2022-01-01\nsteps: [{step}]"
    )
    assert message in folder.mistakes()


@pytest.mark.parametrize(
    ("table", "target", "message"),
    [
        ("", "type: iceberg, mode: history", "mode history needs key"),
        (
            "",
            "type: jdbc, connection: c, table: t, mode: history, key: [id]",
            "use iceberg or delta",
        ),
        ("", "type: iceberg, track: [a], valid_to: b", "track, valid_to: only for mode history"),
        ("", f"{HISTORY}, window_column: at", "sequence_by names the column with the time of a"),
        ("", f"{HISTORY}, snapshot: true, sequence_by: at", "not allowed for a snapshot"),
        ("", f"{HISTORY}, valid_from: until, valid_to: UNTIL", "must be two columns"),
        ("", f"{HISTORY}, sequence_by: valid_from", "a column that mode history adds"),
        ("", f"{HISTORY}, track: [ID]", "track: ID must not be a column of the key"),
        ("", f"{HISTORY}, existing_rows: keep", "keeps existing rows; remove existing_rows"),
        ("ordered: false", HISTORY, "ordered: must be true for mode history"),
        ("lookback: 1", HISTORY, "lookback: not allowed for mode history; load the late rows"),
        ("incremental_type: files", HISTORY, "history needs windows of time"),
    ],
)
def test_a_history_that_cannot_be_kept_is_refused(folder, table, target, message):
    text = f"period: 1 day\nsteps: [{{step: s, sql: SELECT 1, target: {{{target}}}}}]\n{table}"
    start = "" if "files" in table else "default_start: 2022-01-01\n"
    folder.write("tables/t.yaml", f"table: t\n{start}{text}")
    assert message in folder.mistakes()


def test_readers_of_a_history_know_its_added_columns(folder):
    columns = "columns: id INT, city STRING"
    folder.table("a", columns, sql="SELECT 1 AS id, 'x' AS city")
    file = folder.root / "tables/a.yaml"
    file.write_text(file.read_text().replace("type: iceberg", HISTORY))
    folder.table("b", "depends_on: [a]", sql="SELECT id, valid_from FROM a WHERE valid_to IS NULL")
    assert list(find_unknown_names(folder.load(), may_have_own=False)) == []
    folder.table("b", "depends_on: [a]", sql="SELECT valid_until FROM a")
    ((_, _, unknown),) = find_unknown_names(folder.load(), may_have_own=False)
    assert "valid_until" in str(unknown)


def test_two_tables_must_not_write_to_one_place(folder):
    folder.table("a").table("b")
    file = folder.root / "tables/b.yaml"
    file.write_text(file.read_text().replace("iceberg}", "iceberg, name: a}"))
    assert "a.load writes to the same target" in folder.mistakes()


def test_a_field_given_twice_is_refused(folder):
    folder.table("t", "period: 1 hour")
    assert "tables/t.yaml:4: period: given twice, first in line 2" in folder.mistakes()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("run_log: postgresql://u:hunter2@h/d", "run_log: a password"),
        ("catalog: postgresql://u:hunter2@h/d", "catalog: a password"),
        (
            "connections: {pg: {url: 'postgresql://u:hunter2@h/d'}}",
            "connections.pg.url: a password",
        ),
        (
            "connections: {pg: {url: 'sqlite:///x', jdbc: {options: {password: hunter2}}}}",
            "connections.pg.jdbc.options.password: a secret",
        ),
        (
            "spark: {config: {spark.hadoop.fs.s3a.secret.key: hunter2}}",
            "spark.config.spark.hadoop.fs.s3a.secret.key: a secret",
        ),
        ("spark: {remote: 'sc://h:1/;token=hunter2'}", "spark.remote: a secret"),
        ("variables: {api_token: hunter2}", "variables.api_token: a secret"),
        (
            """connections: {k: {kafka: {bootstrap.servers: x,
                sasl.jaas.config: 'Login username="u" password="hunter2";'}}}""",
            "connections.k.kafka.sasl.jaas.config: a password",
        ),
    ],
)
def test_a_secret_in_plain_text_is_refused_and_not_shown(folder, text, place):
    folder.write("logdriven.yaml", f"project: p\n{text}")
    mistakes = folder.mistakes()
    assert f"{place} in plain text; write ${{env:" in mistakes
    assert "hunter2" not in mistakes


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("description: none", "variables: {hook_token: hunter2}", "variables.hook_token: a secret"),
        ("description: none", "variables: {hook: 'x://u:hunter2@h'}", "variables.hook: a password"),
        (
            "sql: SELECT 1 AS one",
            "source: {type: csv, path: x, options: {password: hunter2}}",
            "steps[0].source.options.password: a secret",
        ),
        (
            "{type: iceberg}",
            "{type: parquet, options: {secret.key: hunter2}}",
            "steps[0].target.options.secret.key: a secret",
        ),
    ],
)
def test_a_secret_in_a_tables_file_is_refused_and_not_shown(folder, old, new, place):
    file = folder.table("t").root / "tables/t.yaml"
    file.write_text(file.read_text().replace(old, new))
    mistakes = folder.mistakes()
    assert f"{place} in plain text; write ${{env:" in mistakes
    assert "hunter2" not in mistakes


@pytest.mark.parametrize("option", ["-Dmy.password=hunter2", "-Dmy.word=${env:WORD}"])
def test_a_secret_in_an_option_of_java_is_refused(folder, option):
    config = f"{{spark.driver.extraJavaOptions: '-Xss2m {option}'}}"
    folder.write("logdriven.yaml", f"project: p\nspark: {{config: {config}}}")
    mistakes = folder.mistakes()
    assert "every user of the host can read Java's command line; write the option" in mistakes
    assert "hunter2" not in mistakes


def test_what_only_speaks_of_secrets_is_none(folder):
    config = "{spark.hadoop.fs.s3a.aws.credentials.provider: org.example.Provider}"
    folder.write("logdriven.yaml", f"project: p\nspark: {{config: {config}}}")
    folder.table("t", "variables: {token_url: 'https://login', has_password: true}").load()


def test_secrets_come_from_the_environment_and_never_leave_again(folder, monkeypatch):
    url = "postgresql://u:${env:PG_PASSWORD}@h/d"
    folder.write("logdriven.yaml", f"project: p\nconnections: {{pg: {{url: '{url}'}}}}")
    monkeypatch.setenv("PG_PASSWORD", "s3cret-word")
    connection = folder.load().connection("pg")
    assert connection.options == {"user": "u", "password": "s3cret-word"}
    assert connection.jdbc_url == "jdbc:postgresql://h/d"
    assert "s3cret-word" not in repr(connection)
    assert redact("login with s3cret-word failed") == "login with *** failed"


def test_a_missing_secret_names_its_variable(folder, monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    url = "postgresql://u:${env:NOT_SET}@h/d"
    folder.write("logdriven.yaml", f"project: p\nconnections: {{pg: {{url: '{url}'}}}}")
    with pytest.raises(UsageError, match="connection pg: the environment variable NOT_SET"):
        folder.load().connection("pg")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:planted@host/db",
        "jdbc:postgresql://h/d?user=u&password=planted",
        "FATAL: connect with password = planted;",
    ],
)
def test_passwords_are_recognised_by_their_place_too(text):
    assert "planted" not in redact(text)


def test_the_run_log_of_the_environment_wins(folder, monkeypatch):
    monkeypatch.setenv("LOGDRIVEN_RUN_LOG", "sqlite:////tmp/other.db")
    assert folder.load().run_log_url.database == "/tmp/other.db"
    monkeypatch.delenv("LOGDRIVEN_RUN_LOG")
    assert folder.load().run_log_url.database == f"{folder.root}/.logdriven/run_log.db"


def test_a_branch_deployment_of_dagster_has_a_run_log_of_its_own(folder, monkeypatch):
    monkeypatch.setenv("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT", "1")
    with pytest.raises(UsageError, match="set LOGDRIVEN_RUN_LOG for branch deployments"):
        folder.load().run_log_url  # noqa: B018 - it refuses
    monkeypatch.setenv("LOGDRIVEN_RUN_LOG", "sqlite:////tmp/branch.db")
    assert folder.load().run_log_url.database == "/tmp/branch.db"


def test_a_job_of_unknown_tables_is_refused(folder):
    folder.table("ods.a").write("jobs/j.yaml", "job: j\ntables: [ods.b]")
    assert "jobs/j.yaml:2: tables[0]: unknown table 'ods.b'" in folder.mistakes()


def test_paths_start_at_the_project_and_take_variables(folder):
    folder.write("logdriven.yaml", "project: p\nvariables: {data: files}")
    project = folder.load()
    assert project.path("${data}/a.csv") == f"{folder.root}/files/a.csv"
    assert project.path("s3a://bucket/a.csv") == "s3a://bucket/a.csv"


def test_a_folder_without_a_project_explains_how_to_make_one(tmp_path):
    with pytest.raises(InvalidProjectError, match="logdriven init"):
        load_project(tmp_path)
