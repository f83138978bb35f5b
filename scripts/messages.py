"""Writes tests/messages.txt, the texts that users can see: `python -m scripts.messages`.

They are the strings of two words or more in the package, except docstrings, type hints, SQL and
other code, and the texts of its templates. A value of an f-string is a placeholder, such as
`{table}`. Keys of Dagster's metadata are listed, too. Reviewers read all texts in this one file.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "logdriven_dagster"
LISTING = ROOT / "tests/messages.txt"
_HEAD = "# Texts that users can see. Written by `python -m scripts.messages`; do not edit.\n"

_PROSE = re.compile(r"(\b[A-Z]?[a-z]+|})[,;:)`']* +[(`']*[a-z]{2}|[a-z]{2}[,;:]? +({|[A-Z][a-z])")
"""Two adjoining words, or a word and a placeholder."""
_CODE = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|MERGE|WITH|FROM|WHERE|SET|CALL|LOCK|SHOW"
    r"|DESCRIBE|EXPLAIN|PRAGMA|CAST|AND|OR|ON|ORDER BY|GROUP BY|CASE|NOT|WHEN|SESSION|COPY)\b"
    r"|<[a-z/!]|^[\w.]+\(|\(\?|\[\^|\{%|#!/|\| None$|^\w+\[.*\]$| (IS NULL|RLIKE|IN \(|<=>|>=|<>) "
)


def messages(source: str, *, has_labels: bool = False) -> list[str]:
    """Return the texts of a module in alphabetical order, once each.

    `has_labels` adds the keys of dictionaries, which are labels in Dagster's metadata.
    """
    tree = ast.parse(source)
    found = set(_texts(tree)) | (set(_labels(tree)) if has_labels else set())
    return sorted(re.sub(r"\s*\n\s*", " ⏎ ", text.strip()) for text in found)


def template_texts(source: str) -> list[str]:
    """Return the texts of a Jinja template in alphabetical order, once each."""
    code = r"<(style|script)\b.*?</\1>|<[^>]*>|\{[%#].*?[%#]\}"
    lines = re.sub(code, "\n", source, flags=re.DOTALL).splitlines()
    value = re.compile(r'\{\{[^"]*\}\}|[^a-z]*')
    return sorted({text for line in lines if not value.fullmatch(text := line.strip())})


def listing() -> str:
    """Return the contents of the file: a section of texts for each module."""
    sections = [_HEAD]
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.j2")]):
        place = path.relative_to(PACKAGE)
        if path.suffix == ".j2":
            found = template_texts(path.read_text())
        else:
            found = messages(path.read_text(), has_labels=place.parts[0] == "orchestration")
        if found and "migrations" not in path.parts:
            sections.append("\n".join([str(place), *(f"  {text}" for text in found)]) + "\n")
    return "\n".join(sections)


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts within a node, without docstrings."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return
        case _ if (text := _joined(node)) is not None:
            if _PROSE.search(text) and not _CODE.search(text):
                yield text
            children = _values(node)
        case _:
            children = ast.iter_child_nodes(node)
    for child in children:
        yield from _texts(child)


def _labels(tree: ast.AST) -> Iterator[str]:
    """Yield the words that are keys of dictionaries."""
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys=keys):
                pass
            case ast.Assign(targets=[ast.Subscript(slice=key)]):
                keys = [key]
            case _:
                continue
        for key in keys:
            match key:
                case ast.Constant(value=str(text)) if re.fullmatch(r"[a-z][a-z_/]+", text):
                    yield text


def _joined(node: ast.AST) -> str | None:
    """Return a string, f-string or concatenation as one text with placeholders."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_part(part) for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            texts = [_joined(left), _joined(right)]
            if texts == [None, None]:
                return None
            return "".join(
                text or _part(part) for text, part in zip(texts, (left, right), strict=True)
            )
    return None


def _part(node: ast.AST) -> str:
    """Return a literal part of a text, or a placeholder."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=value):
            return f"{{{_name(value)}}}"
        case _:
            return f"{{{_name(node)}}}"


def _name(node: ast.AST) -> str:
    """Return a short name of a value: its last attribute, or the name of its first argument."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Call(args=[ast.AST() as first, *_]) if not isinstance(first, ast.Constant):
            return _name(first)
        case ast.Call(func=func):
            return _name(func)
        case ast.Subscript(value=value) | ast.Starred(value=value) | ast.Await(value=value):
            return _name(value)
        case ast.GeneratorExp(generators=[first, *_]) | ast.ListComp(generators=[first, *_]):
            return _name(first.iter)
    return "…"


def _values(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the values within a text, which may contain texts themselves."""
    match node:
        case ast.JoinedStr(values=parts):
            for part in parts:
                if isinstance(part, ast.FormattedValue):
                    yield part.value
        case ast.BinOp(left=left, right=right):
            for side in (left, right):
                if _joined(side) is None:
                    yield side
                else:
                    yield from _values(side)


if __name__ == "__main__":
    LISTING.write_text(listing())
