"""What came from outside is hidden, whatever it is called; the rest stays readable."""

import time
from base64 import b64encode
from urllib.parse import quote

import pytest

from logdriven_dagster.config import secrets
from logdriven_dagster.config.connections import build_database_url
from logdriven_dagster.config.secrets import redact, redact_start, remember, resolve
from logdriven_dagster.errors import UsageError


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(secrets, "_known", set())


@pytest.fixture
def env(monkeypatch):
    return monkeypatch.setenv


@pytest.mark.parametrize("option", ["hook", "extraJavaOptions", "sasl.jaas.config", "region"])
def test_values_of_the_environment_are_hidden_under_any_name(env, option):
    env("THING", "planted value/7@x")
    assert resolve("a ${env:THING}", option) == "a planted value/7@x"
    assert redact("got planted value/7@x") == "got ***"


@pytest.mark.parametrize(
    "value", ["1", "prod", "5432", "2022-01-05", "127.0.0.1:9092", "localhost", "/tmp/data", "true"]
)
def test_an_ordinary_value_stays_readable_unless_its_name_marks_a_secret(env, value):
    env("THING", value)
    resolve("${env:THING}", "region")
    assert redact(f"in {value} on") == f"in {value} on"
    if len(value) > 2:
        resolve("${env:THING}", "password")
        assert redact(f"in {value} on") == "in *** on"


def test_the_name_of_the_environment_variable_counts_too(env):
    env("HOOK_TOKEN", "prod")
    resolve("${env:HOOK_TOKEN}", "hook")
    assert redact("prod") == "***"


def test_a_secret_comes_from_a_file_without_its_last_line_break(tmp_path):
    file = tmp_path / "secret"
    file.write_text("pw\u20ac1\n")
    assert resolve(f"${{file:{file}}}", "x") == "pw\u20ac1"
    assert redact("is pw\u20ac1") == "is ***"
    with pytest.raises(UsageError, match=r"the file .*/none of a secret cannot be read: No such"):
        resolve(f"${{file:{tmp_path}/none}}")


@pytest.mark.parametrize("form", [str, quote, repr, lambda s: b64encode(s.encode()).decode()])
def test_a_secret_is_hidden_quoted_escaped_and_encoded(form):
    remember("pa ss/'7\"\\x")
    assert "ss" not in redact(f"it is {form('pa ss/' + chr(39) + '7' + chr(34) + chr(92) + 'x')}")


@pytest.mark.parametrize("password", ["a@b/c?d#e:f g%40", "ss@h", "1"])
def test_a_password_may_hold_what_means_something_in_a_url(env, tmp_path, password):
    env("PW", password)
    url = build_database_url("postgresql://u:${env:PW}@db.example.org:5432/shop?x=1", tmp_path)
    assert (url.username, url.password, url.host) == ("u", password, "db.example.org")
    assert (url.port, url.database, dict(url.query)) == (5432, "shop", {"x": "1"})


def test_every_part_of_a_url_may_come_from_the_environment(env, tmp_path):
    for name in ("USR", "HST", "DBN", "SSL"):
        env(name, f"the{name.lower()}")
    env("PRT", "6543")
    text = "mysql://${env:USR}@${env:HST}:${env:PRT}/${env:DBN}?ssl=${env:SSL}"
    url = build_database_url(text, tmp_path)
    assert (url.username, url.host, url.port) == ("theusr", "thehst", 6543)
    assert (url.database, url.query["ssl"]) == ("thedbn", "thessl")


def test_a_url_as_a_whole_comes_from_the_environment_encoded(env, tmp_path):
    env("URL", "postgresql://u:p%40ss@h/d")
    assert build_database_url("${env:URL}", tmp_path).password == "p@ss"
    env("URL", "postgresql://u:p@secret-rest@h/d")
    with pytest.raises(UsageError, match="percent-encoded: write an @ in it") as caught:
        build_database_url("${env:URL}", tmp_path)
    assert "secret-rest" not in str(caught.value)


def test_unregistered_passwords_are_hidden_by_their_places():
    assert redact("at jdbc:x://u:p@ss/w@h/d now") == "at jdbc:x://u:***@h/d now"
    assert redact("password='a b', Pwd = c;") == "password=***, Pwd = ***;"
    assert redact("http://h:80/a and me@x") == "http://h:80/a and me@x"


@pytest.mark.parametrize(
    "part",
    ["a://b:", "password=", "password = '", "a://", "a://b:c@", "pwd='\"", "x:", "@", "a://b: "],
)
def test_hiding_takes_time_in_proportion_to_the_text(part):
    remember("planted-word")
    text = part * (300_000 // len(part))
    begun = time.perf_counter()
    redact(text)
    assert time.perf_counter() - begun < 2


def test_a_text_is_cut_before_it_is_searched_and_no_secret_is_cut_in_half():
    remember("planted-" + "x" * 50)
    text = "a" * 95 + "planted-" + "x" * 50 + "b" * 10_000_000
    begun = time.perf_counter()
    shown = redact_start(text, 100)
    assert time.perf_counter() - begun < 0.1
    assert shown == "a" * 95 + "***bb"
    for end in range(1000, 1100):
        assert "plant" not in redact_start("a" * end + "planted-" + "x" * 50 + "b" * 2000, 100)
    many = ("planted-" + "x" * 50 + " ") * 500
    assert "x" not in redact_start(many, 2000)
