"""README, documentation, docstrings and messages follow the language rules of this project."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]

_FORBIDDEN = re.compile(
    r"\b(told|tells?|nobody|somebody|whoever|whatever|in\s+vain|anew|as\s+ever|once\s+more"
    r"|a\s+while|beside|moments?|of\s+others)\b",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^(What|Where|How|Who|Whether|Of)\b(?!.*\?$)", re.IGNORECASE)
_WHAT = re.compile(r"\bwhat\b(?! if\b)", re.IGNORECASE)
_WHAT_PER_THOUSAND = 2
_CODE_COLUMNS = 88
_FENCE = re.compile(r"^ *```(?:.|\n)*?^ *```$", re.MULTILINE)


def prose(text: str) -> str:
    """Return the text without fenced blocks, code spans, link targets and HTML comments."""
    text = _FENCE.sub("", text)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "`code`", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def questions_removed(text: str) -> str:
    """Return the prose without sentences that end with a question mark."""
    return re.sub(r"[^.!?\n|]*\?", "", text)


def forbidden_words(text: str) -> list[str]:
    return _FORBIDDEN.findall(prose(text))


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)


def nominal_whats(text: str) -> float:
    """Return the number of "what" outside of questions per thousand words."""
    words = prose(text)
    return 1000 * len(_WHAT.findall(questions_removed(words))) / max(1, len(words.split()))


def long_code_lines(text: str) -> list[str]:
    """Return the lines of code that are wider than their column. Terminal output is exempt."""
    blocks = _FENCE.findall(text)
    shown = [block for block in blocks if not block.lstrip().startswith("```console")]
    lines = [line for block in shown for line in block.splitlines()[1:]]
    return [line for line in lines if len(line) > _CODE_COLUMNS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_uses_the_words_of_the_field(page: Path) -> None:
    assert forbidden_words(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_heading_is_a_noun_phrase_or_a_gerund(page: Path) -> None:
    assert [heading for heading in headings(page.read_text()) if _HEADING.match(heading)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_seldom_uses_what_as_a_noun(page: Path) -> None:
    assert nominal_whats(page.read_text()) <= _WHAT_PER_THOUSAND


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_line_of_code_fits_its_column(page: Path) -> None:
    assert long_code_lines(page.read_text()) == []


_PACKAGE = ROOT / "logdriven_dagster"
_OPENING = re.compile(r"^(What|Where|How|Who|Whose|Whether|Which|When|Why|Of)\b")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module, and those that follow assignments."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text
        body = getattr(node, "body", None)
        for before, after in pairwise(body) if isinstance(body, list) else ():
            if isinstance(before, (ast.Assign, ast.AnnAssign)):
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield text


def test_docstrings_use_the_words_of_the_field() -> None:
    texts = [text for path in sorted(_PACKAGE.rglob("*.py")) for text in docstrings(path)]
    assert len(texts) > 5_000
    assert [text for text in texts if _OPENING.match(text)] == []
    assert [text for text in texts if forbidden_words(text)] == []
    assert nominal_whats("\n".join(texts)) <= _WHAT_PER_THOUSAND


_UNUSUAL = re.compile(
    r"\b(?<!there )(is|are) no (?!longer\b)|\bcannot be had\b|\bnot proven\b|\bin silence\b"
    r"|\bmend(s|ed)?\b|\bsomebody\b|\bpass(ed)? over\b",
    re.IGNORECASE,
)
"""Phrases that messages avoid, in addition to the forbidden words."""


def message_texts() -> list[str]:
    """Return the texts of tests/messages.txt without the names of their placeholders."""
    lines = (ROOT / "tests/messages.txt").read_text().splitlines()
    return [re.sub(r"\{\w+\}", "{}", line) for line in lines if line.startswith("  ")]


def test_messages_use_the_words_of_the_field() -> None:
    texts = message_texts()
    assert len(texts) > 2_500
    assert [text for text in texts if forbidden_words(text)] == []
    assert [text for text in texts if _UNUSUAL.search(text)] == []
    assert nominal_whats("\n".join(texts)) <= _WHAT_PER_THOUSAND


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It tells nobody.", ["tells", "nobody"]),
        ("Run it once\nmore.", ["once\nmore"]),
        ("Besides, a momentary `told` is code.", []),
        ("```\nnobody\n```\nplain", []),
        ("- item:\n\n  ```text\n  anew\n  ```\n", []),
    ],
)
def test_forbidden_words_are_found_in_prose_only(text: str, found: list[str]) -> None:
    assert forbidden_words(text) == found


@pytest.mark.parametrize(
    ("text", "rate"),
    [("What failed is shown.", 250), ("What is a window?", 0), ("Shown: `what`.", 0)],
)
def test_questions_and_code_do_not_count_as_nominal_what(text: str, rate: float) -> None:
    assert nominal_whats(text) == rate
