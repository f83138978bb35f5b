"""Hostile YAML is reported within seconds as a mistake of its file."""

import time

import pytest
import yaml

from logdriven_dagster.config.derived.exchange import parse_export
from logdriven_dagster.config.yaml.bounds import ExcessError, read_yaml
from logdriven_dagster.errors import UsageError

LAUGHS = "\n".join(
    ["a0: &a0 [1, 2]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
)
MERGES = "\n".join(
    [
        "b0: &b0 {k: 1}",
        *(f"b{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 9)}]}}" for n in range(1, 12)),
    ]
)
HOSTILE = {
    "exponential": (LAUGHS, "aliases must not repeat more than 100,000 values"),
    "merged": (MERGES, "aliases must not repeat more than 100,000 values"),
    "recursive list": ("a: &a [*a]", "an alias refers to a value that contains it"),
    "recursive fields": ("&a\nb: *a", "an alias refers to a value that contains it"),
    "deep": ("a: " + "[" * 2000 + "]" * 2000, "nested more than 100 levels deep"),
    "deep list": ("a:\n  " + "- " * 2000 + "1", "nested more than 100 levels deep"),
    "deep fields": (
        "\n".join(" " * depth + "a:" for depth in range(2000)),
        "nested more than 100 levels deep",
    ),
}


@pytest.fixture(params=HOSTILE)
def hostile(request):
    began = time.monotonic()
    yield HOSTILE[request.param]
    assert time.monotonic() - began < 5


def test_a_table_is_refused_with_its_file(folder, hostile):
    text, problem = hostile
    folder.write("tables/t.yaml", text)
    assert folder.mistakes().startswith("tables/t.yaml:")
    assert problem in folder.mistakes()


def test_the_items_of_a_template_are_refused(folder, hostile):
    text, problem = hostile
    folder.table("${each.name}", "for_each: {yaml: items.yaml}")
    folder.write("tables/items.yaml", text)
    assert problem in folder.mistakes()


def test_an_export_is_refused(tmp_path, hostile):
    text, problem = hostile
    with pytest.raises(UsageError, match=problem):
        parse_export(tmp_path / "e.yaml", text)


@pytest.mark.sampled
@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
@pytest.mark.parametrize("depth", [101, 1001, 5000])
def test_every_loader_reports_the_same_limit_of_nesting(loader, depth):
    with pytest.raises(ExcessError) as refused:
        read_yaml("[" * depth + "]" * depth, loader)
    assert refused.value.problem == "it is nested more than 100 levels deep"


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 10_000])
def test_so_is_an_export_in_json(tmp_path, text):
    with pytest.raises(UsageError, match=r"must be YAML or JSON|not an export"):
        parse_export(tmp_path / "e.json", text)


def test_aliases_that_people_write_have_their_values():
    text = "base: &base {a: 1, b: [1, 2]}\none: {<<: *base, a: 2}\ntwo: [*base, *base]"
    base = {"a": 1, "b": [1, 2]}
    assert read_yaml(text)[1] == {"base": base, "one": {"a": 2, "b": [1, 2]}, "two": [base, base]}
