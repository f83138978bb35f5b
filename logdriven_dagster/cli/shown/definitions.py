"""Output of versions and their differences, as text and as JSON."""

import difflib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from logdriven_dagster.cli.shown.rendering import (
    format_brief,
    format_plain,
    make_console,
    print_line,
)
from logdriven_dagster.config.models.settings import SETTINGS, format_setting

if TYPE_CHECKING:
    from rich.text import Text

    from logdriven_dagster.execution.definitions.changed_targets import ChangedTarget
    from logdriven_dagster.execution.definitions.disagreements import Disagreements, Override
    from logdriven_dagster.execution.definitions.registering import Registered
    from logdriven_dagster.execution.definitions.renames import RenameNote
    from logdriven_dagster.model.definitions import Difference, Version, VersionChange
    from logdriven_dagster.planning.plan import Plan
    from logdriven_dagster.planning.unread import MadeWithout

_LONG = 60
"""Maximum length of a value that is shown on the same line."""
_LISTED = 10
_COLOURS = {"add": "green", "modify": "yellow", "delete": "red"}


def print_changes(changes: "Iterable[VersionChange]") -> None:
    """Print each change: the definition, its versions, and the old and new value of each field."""
    for change in changes:
        head = format_plain(f"{change.kind.value.lower():<9}", "dim")
        head.append_text(format_plain(change.name, "bold"))
        head.append_text(
            format_plain(f"  {_format_versions(change)}", _COLOURS[change.operation.value])
        )
        print_line(head)
        print_differences(change.differences())


def _format_versions(change: "VersionChange") -> str:
    match change.operation.value:
        case "add":
            return f"new: version {change.version}"
        case "delete":
            return f"deleted: version {change.version}"
        case _:
            return f"version {change.version - 1} → {change.version}"


def print_differences(differences: "Iterable[Difference]") -> None:
    """Print differences field by field; texts of several lines as a unified diff."""
    for difference in differences:
        path, before, after = difference.path, difference.before, difference.after
        if any(isinstance(value, str) and "\n" in value for value in (before, after)):
            print_line(format_plain(f"  {path}:", "cyan"))
            for line in _compare_lines(_split_lines(before), _split_lines(after)):
                print_line(line)
            continue
        old, new = _format_value(path, before), _format_value(path, after)
        text = format_plain(f"  {path}: ", "cyan")
        separator = "\n    " if max(len(old), len(new)) > _LONG else ""
        text.append_text(format_plain(f"{separator}{old}", "red")).append(separator or " → ")
        text.append_text(format_plain(("→ " if separator else "") + new, "green"))
        print_line(text)


def _format_value(path: str, value: Any) -> str:
    if path in SETTINGS and not isinstance(value, (dict, list)):
        return format_setting(path, value)
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _split_lines(value: Any) -> list[str]:
    return [] if value is None else str(value).splitlines()


def _compare_lines(before: list[str], after: list[str]) -> "Iterator[Text]":
    colours = {"+": "green", "-": "red", "@": "dim"}
    for number, line in enumerate(difflib.unified_diff(before, after, lineterm="", n=2)):
        if number >= 2:  # skip the header, since there are no files
            yield format_plain(f"    {line}", colours.get(line[0], ""))


def change_json(change: "VersionChange") -> dict[str, object]:
    """Convert a change for `--json` of the commands that change definitions."""
    return {
        "kind": change.kind.value.lower(),
        "name": change.name,
        "code": change.code,
        "operation": change.operation.value,
        "version": change.version,
        "changed": [convert_difference(difference) for difference in change.differences()],
    }


def convert_difference(difference: "Difference") -> dict[str, object]:
    """Convert one field; settings as in the registry's columns: seconds, 0 and 1."""
    return {
        "field": difference.path,
        "before": difference.before,
        "after": difference.after,
    }


def convert_version(version: "Version", changed: "Iterable[Difference]") -> dict[str, object]:
    """Convert a version for `history --json`."""
    return {
        "version": version.version,
        "operation": version.operation.value,
        "operator": version.operator,
        "time": version.time,
        "reason": version.reason,
        "changed": [convert_difference(difference) for difference in changed],
    }


def find_changed_targets(
    registered: "Registered", names: "Collection[str]"
) -> "list[ChangedTarget]":
    """Return the given tables that write in another way than their finished windows did."""
    from logdriven_dagster.execution.definitions.changed_targets import list_changed_targets

    return list_changed_targets(registered.run_log, registered.project, names)


def print_changed_targets(found: "Iterable[ChangedTarget]", to: "IO[str] | None" = None) -> None:
    """Print a sentence for each table that writes in another way."""
    for changed in found:
        make_console(to).print(format_plain(changed.text), soft_wrap=True)


def print_made_without(found: "Iterable[MadeWithout]", to: "IO[str] | None" = None) -> None:
    """Print a sentence for each upstream that has not run before finished windows."""
    for made in found:
        make_console(to).print(format_plain(made.text), soft_wrap=True)


def print_single_windows(found: Mapping[str, str], to: "IO[str] | None" = None) -> None:
    """Print a sentence for each table whose windows run one by one, with the reason."""
    for name, reason in found.items():
        text = f"{name} runs its windows one by one, not in batches: {reason}"
        make_console(to).print(format_plain(text), soft_wrap=True)


def print_renames(found: "Iterable[RenameNote]") -> None:
    """Print a sentence for each `renamed_from`."""
    for note in found:
        print_line(note.text)


_PARTS = 4


def print_parts(found: "Plan") -> None:
    """Print the remainders of windows that a changed grid has left; they run without any action."""
    for text in iter_part_notes(found):
        print_line(text)


def iter_part_notes(found: "Plan") -> "Iterator[str]":
    """Yield the remainders of windows that a changed grid has left, a sentence for each table."""
    for name, table in found.tables.items():
        if parts := table.unfinished.parts:
            shown = ", ".join(map(str, parts[:_PARTS])) + (", …" if len(parts) > _PARTS else "")
            grid = table.table.grid
            windows = f"windows of {grid.period} from {format_brief(grid.clock)} in {grid.zone}"
            yield (
                f"{name}: its {windows} do not match the finished windows, because period, "
                "default_start or timezone has changed; the remaining parts of windows run "
                f"as they are: {shown}"
            )


def convert_changed_target(changed: "ChangedTarget") -> dict[str, object]:
    """Convert `changed_target` of a table; no range if no refresh can rewrite all rows."""
    start, end = changed.span.bounds if changed.span else (None, None)
    return {
        "was": changed.was,
        "now": changed.now,
        "effect": changed.effect,
        "data_range_start": start,
        "data_range_end": end,
    }


def print_disagreements(found: "Disagreements") -> None:
    """Print differences between files and registry, disabled definitions and overrides."""
    lines = []
    if found.unapplied:
        named = [_describe_unapplied(change) for change in found.unapplied]
        lines.append(("Not applied yet", named, "`logdriven apply` or the next run applies it"))
    if found.kept:
        named = [f"{name} (version {version})" for name, version in found.kept.items()]
        lines.append(("In force: the registry, not the file", named, "until the file changes"))
    for head, names in (("Disabled", found.disabled), ("Offline", found.offline)):
        if names:
            lines.append((head, list(names), ""))
    for head, named, note in lines:
        text = format_plain(f"{head}: ", "bold").append_text(format_plain(_format_list(named)))
        print_line(text.append_text(format_plain(f"; {note}" if note else "", "dim")))
    _print_overrides(found.overrides)


def _print_overrides(overrides: "Sequence[Override]") -> None:
    if overrides:
        head = format_plain("Operators' settings", "bold")
        print_line(
            head.append_text(
                format_plain("; reset one with `logdriven set NAME --reset FIELD`", "dim")
            )
        )
    for item in overrides[:_LISTED]:
        print_line(f"  {_describe_override(item)}")
    if (more := len(overrides) - _LISTED) > 0:
        print_line(f"  and {more:,} more")


def _format_list(named: list[str]) -> str:
    more = len(named) - _LISTED
    return ", ".join(named[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _describe_unapplied(change: "VersionChange") -> str:
    if change.operation.value != "modify":
        return f"{change.name} ({'new' if change.operation.value == 'add' else 'deleted'})"
    count = len(change.differences())
    return f"{change.name} ({count} field{'' if count == 1 else 's'})"


def _describe_override(item: "Override") -> str:
    was, now = format_setting(item.field, item.declared), format_setting(item.field, item.in_force)
    who = f", {item.operator} {str(item.time)[:16]}Z" if item.operator else ", by SQL"
    return f"{item.name} {item.field} {was} → {now}{who}"


def convert_disagreements(found: "Disagreements") -> Mapping[str, object]:
    """Convert `definitions` of `status --json`."""
    return {
        "unapplied": [change_json(change) for change in found.unapplied],
        "kept": [{"name": name, "version": version} for name, version in found.kept.items()],
        "overrides": [
            {
                "kind": item.kind.value.lower(),
                "name": item.name,
                "field": item.field,
                "declared": item.declared,
                "in_force": item.in_force,
                "operator": item.operator,
                "time": item.time,
            }
            for item in found.overrides
        ],
        "disabled": found.disabled,
        "offline": found.offline,
    }
