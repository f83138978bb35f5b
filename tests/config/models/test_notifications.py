"""Recipients and rules in a project's files: what is refused, and how it is said."""

import textwrap

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import InvalidProjectError

OPS = "{type: email, server: mail.shop, from: etl@shop, to: ops@shop}"
TABLE = """
    table: ods.t
    period: 1 day
    default_start: 2022-01-01
    steps: [{step: load, sql: SELECT 1 AS one, target: {type: iceberg}}]
"""


@pytest.fixture
def project(tmp_path):
    """`project(recipients, notify, defaults)` loads a project, or gives its mistakes."""

    def load(recipients=f"ops: {OPS}", notify="[]", defaults="{}", job="{}"):
        main = f"project: shop\nrecipients: {{{recipients}}}\ndefaults: {defaults}\n"
        for folder in ("tables", "jobs"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "logdriven.yaml").write_text(main)
        table = textwrap.dedent(TABLE) + ("" if notify is None else f"notify: {notify}\n")
        (tmp_path / "tables" / "t.yaml").write_text(table)
        (tmp_path / "jobs" / "j.yaml").write_text(f"job: nightly\ntables: [ods.t]\n{job[1:-1]}\n")
        return load_project(tmp_path)

    return load


def mistakes(project, *args, **fields):
    with pytest.raises(InvalidProjectError) as invalid:
        project(*args, **fields)
    return [
        f"{e.path.name}:{e.line} {e.field}: {e.problem}; {e.hint}" for e in invalid.value.errors
    ]


def test_on_means_on_although_yaml_takes_it_for_true(project):
    (rule,) = project(notify="[{to: ops, on: failure}]").table("ods.t").notify
    assert (rule.to, rule.on) == (("ops",), ("failure",))


def test_failures_and_recoveries_are_reported_unless_a_rule_overrides_it(project):
    (rule,) = project(notify="[{to: [ops]}]").table("ods.t").notify
    assert rule.on == ("failure", "recovery")


def test_rules_of_the_defaults_hold_for_tables_without_their_own(project):
    defaults = "{notify: [{to: ops, on: always}]}"
    assert project(notify=None, defaults=defaults).table("ods.t").notify[0].on == ("always",)
    assert project(notify="[]", defaults=defaults).table("ods.t").notify == ()


def test_an_unknown_recipient_is_a_mistake_with_a_hint_where_it_stands(project):
    unknown = "unknown recipient 'opps'; did you mean 'ops'?"
    rule = "[{to: opps, on: failure}]"
    assert mistakes(project, notify=rule) == [f"t.yaml:6 notify[0].to: {unknown}"]
    assert mistakes(project, job=f"{{notify: {rule}}}") == [f"j.yaml:3 notify[0].to: {unknown}"]
    found = mistakes(project, notify=None, defaults=f"{{notify: {rule}}}")
    assert found == [f"logdriven.yaml:3 defaults.notify[0].to: {unknown}"]


@pytest.mark.parametrize(
    ("recipient", "field"),
    [
        (OPS[:-1] + ", password: hunter2}", "password"),
        ("{type: slack, url: https://hooks.slack.com/services/T0/B0/hunter2}", "url"),
        ("{type: webhook, url: 'https://shop/hook?token=hunter2'}", "url"),
        ("{type: webhook, url: 'https://me:hunter2@shop/hook'}", "url"),
        ("{type: webhook, url: https://shop, headers: {Authorization: hunter2}}", "headers"),
        ("{type: apprise, url: 'ntfy://hunter2@shop/topic'}", "url"),
    ],
)
def test_a_secret_in_plain_text_is_refused_and_not_repeated(project, recipient, field):
    (mistake,) = mistakes(project, f"ops: {recipient}")
    assert mistake.startswith(f"logdriven.yaml:2 recipients.ops.{field}")
    assert "in plain text; write ${env:" in mistake
    assert "hunter2" not in mistake


def test_secrets_from_the_environment_are_what_is_wanted(project):
    hook = "{type: webhook, url: 'https://shop/h?token=${env:T}', headers: {X-Token: '${env:T}'}}"
    assert project(f"hook: {hook}").config.recipients["hook"].type == "webhook"


def test_an_unknown_type_names_those_that_there_are(project):
    (mistake,) = mistakes(project, "ops: {type: pigeon, url: x}")
    assert "unknown type 'pigeon'" in mistake
    assert "email, slack, webhook, apprise" in mistake


def test_apprise_that_is_not_installed_is_a_mistake_before_anything_runs(project, monkeypatch):
    monkeypatch.setattr(
        "logdriven_dagster.config.models.notifications.find_spec", lambda name: None
    )
    (mistake,) = mistakes(project, "ops: {type: apprise, url: '${env:URL}'}")
    assert "apprise is not installed; pip install 'logdriven_dagster[notify]'" in mistake
