"""Data that reach a terminal are shown and never obeyed."""

import io

import pytest

from logdriven_dagster.cli.shown import rendering
from logdriven_dagster.cli.shown.control_characters import escape_control_characters, write_document
from logdriven_dagster.errors import UsageError
from tests.builders import day
from tests.cli.shop_log import ShopLog

HOSTILE = "bad\x1b]52;c;aGk=\x07\x1b[2Jline\x9b31m\x08\rSUCCESS\u202e"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def obeyed(text: str) -> set[str]:
    return {each for each in text if not each.isprintable() and each not in "\n\t"}


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["log", "log --full", "plan", "log --json", "plan --json"])
def test_errors_of_the_log_steer_no_terminal(shop, logdriven, command: str):
    ShopLog(shop).fail("ods.orders", day(1), HOSTILE)
    result = logdriven(*command.split())
    assert result.code == 0
    assert "bad" in result.out
    assert obeyed(result.out + result.err) == set()


def test_an_error_message_steers_no_terminal(capsys: pytest.CaptureFixture[str]):
    rendering.print_error(UsageError(HOSTILE))
    rendering.print_line(HOSTILE)
    out, err = capsys.readouterr()
    assert obeyed(out + err) == set()
    assert "\\x1b[2J" in out


def test_our_own_colours_stay_and_columns_hold_what_is_shown():
    stream = Terminal()
    grid = rendering.make_table("what")
    grid.add_row(rendering.format_plain(HOSTILE, "red"))
    rendering.make_console(stream).print(grid)
    assert "\x1b[31m" in stream.getvalue()
    assert "\x1b]52" not in stream.getvalue()


def test_a_document_is_shown_on_a_terminal_and_kept_for_programs(monkeypatch: pytest.MonkeyPatch):
    for stream, expected in (
        (Terminal(), escape_control_characters(HOSTILE)),
        (io.StringIO(), HOSTILE),
    ):
        monkeypatch.setattr("sys.stdout", stream)
        write_document(HOSTILE)
        assert stream.getvalue() == expected
