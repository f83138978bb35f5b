"""Data that reach a terminal are shown, never obeyed: escapes could forge what people see."""

import re
import sys

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for tabs and ends of lines, and what turns the direction of a text."""


def visible(text: str) -> str:
    r"""The text with `\x1b` and the like where characters would steer a terminal."""
    return _OBEYED.sub(lambda match: _escape(ord(match[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def write_document(text: str) -> None:
    """A document on standard output: for programs as it is, on a terminal to look at."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
