"""Former names of options work as the current ones, with a hint on standard error."""

from pathlib import Path

import pytest
import typer

from logdriven_dagster.cli.app import app
from logdriven_dagster.cli.former_options import FORMER_OPTIONS


def _commands(command, name=""):
    yield name, command
    for part, below in getattr(command, "commands", {}).items():
        yield from _commands(below, f"{name} {part}".strip())


PAGE = Path(__file__).parents[2] / "docs/commands.md"
COMMANDS = dict(_commands(typer.main.get_command(app)))


def _options(name):
    return {text for param in COMMANDS[name].params for text in param.opts}


def test_a_former_name_means_the_current_one_and_is_not_in_the_help(shop, logdriven):
    current = logdriven("set", "ods.orders", "priority=1", "--operator", "ann", "--json")
    former = logdriven("set", "ods.orders", "priority=2", "--as", "ann", "--json")
    assert (current.code, current.err) == (0, "")
    assert (former.code, former.err) == (0, "Warning: --as was renamed; write --operator\n")
    assert former.json["written"]
    history = logdriven("history", "ods.orders", "--json").json
    assert [version["operator"] for version in history][1:] == ["ann", "ann"]
    assert "--as" not in logdriven("set", "--help").out


def test_both_names_at_once_are_refused(shop, logdriven):
    result = logdriven("set", "ods.orders", "priority=1", "--as", "ann", "--operator", "bob")
    assert result.code == 2
    assert "--operator and its former name --as exclude each other" in result.err


@pytest.mark.parametrize("former", FORMER_OPTIONS, ids=lambda former: former.name)
def test_each_former_name_leads_to_an_option_of_a_command_and_is_no_current_name(former):
    found = [
        (command, option)
        for command in COMMANDS.values()
        for option in command.params
        if former.option in option.opts and former.command in (None, command.name)
    ]
    assert found
    assert f"| `{former.name}" in PAGE.read_text()
    for command, option in found:
        assert not any(former.name in each.opts for each in command.params)
        is_flag = former.value is not None or option.is_flag
        context = command.make_context(command.name, [], resilient_parsing=True)
        parser = command.make_parser(context)
        given, _, _ = parser.parse_args([former.name] if is_flag else [former.name, "ann"])
        assert given[option.name] == (former.value or (True if is_flag else "ann"))
