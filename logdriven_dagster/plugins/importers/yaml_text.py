"""Readable YAML: fields in order, SQL in blocks, comments above."""

import re
import textwrap
from collections.abc import Iterable, Iterator

import yaml

from logdriven_dagster.config.checking.secret_texts import find_marked_secrets
from logdriven_dagster.config.secrets import find_passwords
from logdriven_dagster.plugins.importers.drafts import DraftFile

_WIDTH = 98


class _DraftDumper(yaml.SafeDumper):
    """YAML dumper that indents lists and writes multi-line texts as literal blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the signature is PyYAML's
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_DraftDumper.add_representer(str, _text)


def yaml_text(draft: DraftFile) -> str:
    """Return the text of a draft's file; equal values give equal text."""
    lines = [*_comment(draft.origin)]
    for name, value in draft.values.items():
        lines += _comment(*draft.comments.get(name, ()))
        lines += _steps(draft, value) if name == "steps" else _field(name, value)
    return "\n".join(lines) + "\n"


def block(text: str) -> str:
    """Normalize SQL for a literal block: no tabs in indentation, no trailing blanks."""
    lines = (line.rstrip() for line in text.strip("\r\n").splitlines())
    text = "\n".join(re.sub(r"^[ \t]+", lambda m: m[0].expandtabs(4), line) for line in lines)
    return textwrap.dedent(text).strip() + ("\n" if "\n" in text.strip() else "")


def hide_secrets(text: str) -> str:
    """Return a text of the source system without the secrets in it."""
    secrets = {*find_marked_secrets(text), *find_passwords(text)}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _steps(draft: DraftFile, steps: Iterable[dict[str, object]]) -> Iterator[str]:
    yield "steps:"
    for step in steps:
        for line in _comment(*draft.comments.get(f"steps.{step.get('step')}", ())):
            yield f"  {line}"
        yield from _field("steps", [step])[1:]


def _field(name: str, value: object) -> list[str]:
    text = yaml.dump(
        {name: value}, Dumper=_DraftDumper, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    return text.rstrip("\n").split("\n")


def _comment(*texts: str) -> Iterator[str]:
    for text in hide_secrets("\0".join(texts)).split("\0") if texts else ():
        for line in text.splitlines():
            # Generated sentences are wrapped; copied lines are kept.
            wrapped = [line] if line.startswith("    ") else textwrap.wrap(line, _WIDTH - 4)
            for part in wrapped or [""]:
                yield f"# {part}".rstrip()
