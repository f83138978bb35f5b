"""README, documentation, docstrings and messages follow the language rules of this project."""

import ast
import gc
import re
from collections.abc import Iterator
from functools import cache
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


@cache
def package_blocks() -> list[tuple[ast.AST, list[ast.stmt]]]:
    """Return each node of the package that has a body, with its statements."""
    found = []
    gc.disable()  # it would visit the trees again for every 700 nodes
    try:
        waiting: list[ast.AST] = [
            ast.parse(path.read_text()) for path in sorted(_PACKAGE.rglob("*.py"))
        ]
    finally:
        gc.enable()
    for node in waiting:
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(statements := getattr(node, name, None), list):
                found.append((node, statements))
                waiting += statements
    return found


def docstrings() -> Iterator[str]:
    """Yield the docstrings of the package, and those that follow assignments."""
    for node, body in package_blocks():
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text
        for before, after in pairwise(body):
            if isinstance(before, (ast.Assign, ast.AnnAssign)):
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield text


def test_docstrings_use_the_words_of_the_field() -> None:
    texts = list(docstrings())
    assert len(texts) > 5_000
    assert [text for text in texts if _OPENING.match(text)] == []
    assert [text for text in texts if forbidden_words(text)] == []
    assert nominal_whats("\n".join(texts)) <= _WHAT_PER_THOUSAND


_VERBS = frozenset(
    re.findall(
        r"\w+",
        """
        accept acquire adapt add adopt advance allow analyze announce answer append apply
        archive ask assert assign attach audit await backfill batch begin bind block build
        calculate call can cancel carry cast catch change check choose claim clean clear close
        collect combine commit compact compare compile complete compute configure connect
        convert copy count cover create cut declare decode define delete describe detach
        determine discard discover drain draw drop dump emit encode end enforce enqueue ensure
        enter escape estimate evaluate exclude execute expand explain export extend extract
        fail fence fetch fill filter find fit fix flush fold follow forget format forward
        freeze generate get give go group guard handle has hash hide hold identify ignore
        import include index infer inherit insert inspect install interrupt invalidate invite
        is iterate join judge keep launch leave let limit link list load lock log look make
        mark mask match may measure merge migrate mirror move must name normalize note notify
        observe offer on open order parse pass patch pause perform persist pick pin place plan
        poll prepare preview print probe proceed produce promote prompt protect provide prune
        publish pull push put query queue quote raise rank reach read recall recheck reconcile
        record recover redact reduce refer refresh refuse register reject release rely remember
        remove rename render repair replace report request require rerun reserve reset resolve
        respond restore resume retain retrieve retry return reuse revert rewrite roll rollback
        rotate run save scan schedule scope search see select send separate serialize serve set
        settle share shorten should show shut sign simplify skip sleep sort spawn split stage
        stamp start step stop store stream strip submit substitute succeed suggest summarize
        supersede supply suppress swap switch sync take terminate test throw tidy time trace
        track transform translate trim try undo unify unite unlock unregister unskip unwrap
        update upsert use validate verify visit wait walk warn watch was wrap write yield
        """,
    )
)
"""Verbs, and prefixes of predicates and callbacks, that begin the name of a function."""

_IRREGULAR = frozenset(
    re.findall(
        r"\w+",
        """
        begun bound bought brought built caught dealt done drawn eaten fallen felt forgotten
        found given gone grown held hidden hurt kept known left lost made meant met seen sent
        shown slept sold sought spent spoken stolen stood struck swept taken taught thought
        thrown told understood won woken written
        """,
    )
)
_NOT_PARTICIPLES = frozenset(["need", "feed", "seed", "embed", "exceed", "speed"])


def first_word(function: str) -> str:
    return function.strip("_").split("_")[0]


def is_participle(word: str) -> bool:
    return (word.endswith("ed") and word not in _NOT_PARTICIPLES) or word in _IRREGULAR


def package_functions() -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions and methods of the package, without those of Python's protocols."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node, _ in package_blocks() if isinstance(node, functions)]
    return [node for node in found if not node.name.startswith("__")]


def test_half_of_the_functions_begin_with_a_common_verb() -> None:
    words = [first_word(function.name) for function in package_functions()]
    assert len(words) > 4_000
    assert sum(word in _VERBS for word in words) / len(words) >= 0.5


def test_few_functions_begin_with_a_participle() -> None:
    names = [function.name for function in package_functions()]
    participles = [name for name in names if is_participle(first_word(name))]
    assert len(participles) / len(names) <= 0.02, participles


_CONTRACT = re.compile(r"\b(Returns?|Raises?|Yields?|returned|raised)\b")


def states_contract(function: ast.FunctionDef | ast.AsyncFunctionDef, text: str) -> bool:
    """Return whether a docstring names an argument, or states a return value or an error."""
    given = function.args
    arguments = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    return bool(_CONTRACT.search(text)) or any(f"`{each.arg}`" in text for each in arguments)


def test_docstrings_of_public_functions_state_arguments_returns_or_errors() -> None:
    public = [each for each in package_functions() if not each.name.startswith("_")]
    texts = [(each, text) for each in public if (text := ast.get_docstring(each))]
    assert len(texts) > 2_000
    assert sum(states_contract(*each) for each in texts) / len(public) >= 0.2


_OTHER_WORDS = re.compile(
    r"(?:^|_)(told|tells?|telling|said|says?|nobodys?|somebody|whoever|whatever|in_vain|anew"
    r"|as_ever|once_more|a_while|beside|moments?|of_others)(?=_|$)"
)


def test_names_of_functions_use_the_words_of_the_field() -> None:
    names = {function.name for function in package_functions()}
    assert {name for name in names if _OTHER_WORDS.search(name)} == set()


def test_names_of_tests_use_the_words_of_the_field() -> None:
    text = "\n".join(path.read_text() for path in sorted(ROOT.glob("tests/**/*.py")))
    names = re.findall(r"^ *(?:async )?(?:def|class) (\w+)", text, re.MULTILINE)
    assert len(names) > 4_000
    assert [name for name in names if _OTHER_WORDS.search(name)] == []


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
