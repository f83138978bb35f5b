"""Writing drafts as files, after validation against the project, without overwriting others."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from logdriven_dagster.config.checking.secret_texts import find_marked_secrets
from logdriven_dagster.config.loading import load_project
from logdriven_dagster.config.project import PROJECT_FILE, Project
from logdriven_dagster.errors import ConfigError, InvalidProjectError, UsageError
from logdriven_dagster.plugins.importers.drafts import DraftFile, Translation, Values
from logdriven_dagster.plugins.importers.yaml_text import yaml_text


@dataclass(frozen=True, slots=True)
class Writing:
    """Changes of an import to a project folder; paths are relative to it."""

    root: Path
    texts: dict[Path, str] = field(default_factory=dict)
    unchanged: tuple[Path, ...] = ()
    """Files that already have their text."""
    differing: tuple[Path, ...] = ()
    """Files that exist with a different text."""

    @property
    def changed(self) -> tuple[Path, ...]:
        """The files that the import would write."""
        return tuple(path for path in self.texts if path not in self.unchanged)

    def refuse_differing(self) -> None:
        """Raise UsageError if a file would be overwritten."""
        if self.differing:
            listed = "".join(f"\n  {path}" for path in self.differing)
            raise UsageError(
                "these files exist and differ; nothing was written; replace them with "
                f"--overwrite:{listed}"
            )

    def write(self) -> None:
        """Write new and changed files."""
        for path in self.changed:
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.texts[path], encoding="utf-8")


def prepare(project: Project, translation: Translation) -> Writing:
    """Return the files of an import that are valid together with the project's.

    A table with invalid steps or a secret in a script becomes a stub that fails with the reason.
    Drafts that are invalid for other reasons are left out, also from jobs and dependencies. All of
    this is recorded.
    """
    drafts = _without_defined(project, translation)
    drafts = [_refuse_secrets(draft, translation) for draft in drafts]
    stubs: set[PurePosixPath] = set()
    while broken := _broken(project.root, drafts):
        kept: list[DraftFile] = []
        gone: set[str] = set()
        for draft in drafts:
            error = broken.get(Path(draft.path))
            if error is None:
                kept.append(draft)
                continue
            problem = f"{error.field}: {error.problem}" if error.field else error.problem
            problem += f"; {error.hint}" if error.hint else ""
            reason = f"not written, it would not be valid: {problem}"
            has_steps = len(draft.tables) == 1 and draft.path not in stubs
            if has_steps and error.field.startswith("steps"):
                stubs.add(draft.path)
                kept.append(draft.stub(problem))
                reason = f"its steps would not be valid: {problem}"
            else:
                gone.update(draft.tables)
            translation.leave(draft.origin, str(draft.path), reason)
        drafts = list(_without(gone, kept, translation))
    translation.drafts[:] = drafts
    texts = {path: text for draft in drafts for path, text in _list_texts(draft)}
    there = {path: _content(project.root / path) for path in texts}
    return Writing(
        project.root,
        texts,
        unchanged=tuple(path for path, text in there.items() if text == texts[path]),
        differing=tuple(p for p, text in there.items() if text not in (None, texts[p])),
    )


def _list_texts(draft: DraftFile) -> Iterator[tuple[Path, str]]:
    """Yield the paths and texts of a draft and of the files that it uses."""
    yield Path(draft.path), yaml_text(draft)
    for path, text in draft.files.items():
        yield Path(path), text


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _without_defined(project: Project, translation: Translation) -> list[DraftFile]:
    """Return the drafts whose tables no other file of the project defines."""
    files = {name.lower(): path for name, path in project.files.items()}
    kept = []
    for draft in translation.drafts:
        others = {files.get(name.lower()) for name in draft.tables}
        others -= {None, project.root / draft.path}
        if others:
            places = sorted(str(path.relative_to(project.root)) for path in others if path)
            reason = f"defined already in {', '.join(places)}"
            translation.leave(draft.origin, ", ".join(draft.tables), reason)
        else:
            kept.append(draft)
    return kept


def _refuse_secrets(draft: DraftFile, translation: Translation) -> DraftFile:
    """Return a draft, or a stub if a script of it has a secret in plain text."""
    for path, text in draft.files.items():
        if next(find_marked_secrets(text), None) is not None:
            reason = "its script has a secret in plain text; read it from the environment"
            translation.leave(draft.origin, str(path), reason)
            return draft.stub(reason)
    return draft


def _without(
    gone: set[str], drafts: Iterable[DraftFile], translation: Translation
) -> Iterator[DraftFile]:
    """Yield the drafts without references to missing tables, which are removed from jobs.

    A table that would depend on a missing one is recorded for manual review.
    """
    for draft in drafts:
        values = dict(draft.values)
        missing = sorted(gone & {*values.get("tables", ()), *_list_awaited(values)})
        for name in missing:
            translation.leave(draft.origin, str(draft.path), f"{name}, which it uses, is missing")
        if missing and "tables" in values:
            values["tables"] = [name for name in values["tables"] if name not in gone]
        elif missing:
            values["depends_on"] = [
                {"table": each["table"], "managed": False} if each["table"] in gone else each
                for each in values["depends_on"]
            ]
            values["release_state"] = "offline"
        if values.get("tables") != []:
            yield replace(draft, values=values)


def _list_awaited(values: Values) -> list[str]:
    return [each["table"] for each in values.get("depends_on", ())]


def _broken(root: Path, drafts: Sequence[DraftFile]) -> dict[Path, ConfigError]:
    """Return the drafts that are invalid in a copy of the project, each with its first error.

    Raises InvalidProjectError if files of the project itself are invalid in the copy.
    """
    with tempfile.TemporaryDirectory(prefix="logdriven-import-") as name:
        copy = Path(name).resolve()
        _copy(root, copy, drafts)
        try:
            load_project(copy)
        except InvalidProjectError as invalid:
            return _by_draft(root, copy, drafts, invalid.errors)
    return {}


def _by_draft(
    root: Path, copy: Path, drafts: Sequence[DraftFile], errors: Iterable[ConfigError]
) -> dict[Path, ConfigError]:
    ours = {Path(draft.path) for draft in drafts}
    found: dict[Path, ConfigError] = {}
    others = []
    for error in errors:
        path = error.path.relative_to(copy)
        if path in ours:
            found.setdefault(path, error)
        else:
            problem, hint = error.problem.replace(str(copy), str(root)), error.hint
            others.append(ConfigError(root / path, error.line, error.field, problem, hint))
    if others and not found:
        raise InvalidProjectError(others)
    return found


def _copy(root: Path, copy: Path, drafts: Iterable[DraftFile]) -> None:
    shutil.copyfile(root / PROJECT_FILE, copy / PROJECT_FILE)
    for folder in ("tables", "jobs"):
        if (root / folder).is_dir():
            shutil.copytree(root / folder, copy / folder)
    for draft in drafts:
        for path, text in _list_texts(draft):
            file = copy / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
