"""Control characters in data: escaped on a terminal, since escape sequences could forge output."""

import re
import sys

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tabs and line ends, and characters that change text direction."""


def escape_control_characters(text: str) -> str:
    r"""Return the text with `\x1b` and other control characters escaped."""
    return _OBEYED.sub(lambda match: _escape(ord(match[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def write_document(text: str) -> None:
    """Write a document to standard output: unchanged for programs, escaped on a terminal."""
    sys.stdout.write(escape_control_characters(text) if sys.stdout.isatty() else text)
