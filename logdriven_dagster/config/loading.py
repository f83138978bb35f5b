"""Loading a folder of YAML files into a `Project`, or into a list of all its mistakes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from logdriven_dagster.config.checking.documents import validate_document
from logdriven_dagster.config.checking.engines import Documents, find_unsupported_features
from logdriven_dagster.config.checking.oversights import find_oversights
from logdriven_dagster.config.checking.plain_secrets import find_plain_secrets
from logdriven_dagster.config.checking.project import ValidConfigs, find_mistakes
from logdriven_dagster.config.derived.running_order import sort_by_dependencies
from logdriven_dagster.config.models.code_files import find_misplaced_files
from logdriven_dagster.config.models.incremental.registered import get_incremental_type
from logdriven_dagster.config.models.jobs import JobConfig, choose_job_model
from logdriven_dagster.config.models.notifications import (
    find_broken_recipients,
    find_unknown_recipients,
)
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import PROJECT_FILE, Project
from logdriven_dagster.config.project_files import ProjectFiles, get_definitions_folder
from logdriven_dagster.config.properties import merge_properties
from logdriven_dagster.config.templates import expand, find_items_file
from logdriven_dagster.config.yaml.components import unwrap_component
from logdriven_dagster.config.yaml.documents import (
    Document,
    read_document,
    report_once,
)
from logdriven_dagster.config.yaml.hints import log_hint
from logdriven_dagster.config.yaml.renamed_fields import with_current_names
from logdriven_dagster.errors import ConfigError, InvalidProjectError, UnparsedQueryError

_Config = TypeVar("_Config", TableConfig, JobConfig)
_NAME = re.compile(r"^table: *([\w.]+)", re.MULTILINE)


def load_project(root: Path | str) -> Project:
    """Load a project folder. Raises InvalidProjectError with every mistake found in it."""
    return build_project(read_sources(root))


def load_examined_project(root: Path | str, *, parsed_by_spark: bool = False) -> Project:
    """Load a project folder, and also check for mistakes that would only fail at run time.

    Raises InvalidProjectError with every mistake. Runs no code of the project. If Spark parses the
    queries afterwards, those that only sqlglot cannot parse are accepted.
    """
    sources = read_sources(root)
    project = build_project(sources)
    found = find_oversights(project, (*sources.tables, *sources.jobs))
    if parsed_by_spark:
        found = [error for error in found if not isinstance(error, UnparsedQueryError)]
    if found:
        raise InvalidProjectError(found)
    return project


def read_sources(root: Path | str) -> ProjectFiles:
    """Read the documents of a project folder.

    Raises InvalidProjectError if `logdriven.yaml` is missing or invalid.
    """
    root = Path(root).resolve()
    path = root / PROJECT_FILE
    if not path.is_file():
        hint = (
            "change to the folder of a project, or set --project or LOGDRIVEN_PROJECT; "
            "create a project with `logdriven init FOLDER`"
        )
        raise InvalidProjectError([ConfigError(path, None, "", "no such file", hint)])
    errors: list[ConfigError] = []
    hints: list[ConfigError] = []
    mains = list(
        _rename_fields(_read_documents([path], root, errors), ProjectConfig, errors, hints)
    )
    config = validate_document(mains[0], ProjectConfig, errors) if mains else None
    if config is None:
        raise InvalidProjectError(errors)
    main = mains[0]
    errors += find_plain_secrets(main, config)
    errors += find_broken_recipients(main, config.recipients)
    rules = config.defaults.notify or ()
    errors += find_unknown_recipients(main, ("defaults", "notify"), rules, config.recipients)
    defaults = main.values.get("defaults") or {}
    table_files = _expand_documents(_list_yaml_files(root / "tables", "**/*"), root, errors)
    tables = [
        merge_properties(
            _merge_defaults(document, defaults), config.properties, config.variables, errors
        )
        for document in _rename_fields(table_files, TableConfig, errors, hints)
    ]
    job_files = _expand_documents(_list_yaml_files(root / "jobs", "**/*"), root, errors)
    jobs = [
        renamed
        for document in job_files
        for renamed in _rename_fields([document], choose_job_model(document.values), errors, hints)
    ]
    renamed_fields = tuple(report_once(hints))
    for found in renamed_fields:
        log_hint("renamed_field", str(found))
    return ProjectFiles(
        root,
        main,
        config,
        tuple(tables),
        tuple(jobs),
        tuple(errors),
        get_definitions_folder(root),
        renamed_fields,
    )


def build_project(sources: ProjectFiles) -> Project:
    """Build a project from its documents. Raises InvalidProjectError with every mistake."""
    building = _Building(sources, list(sources.errors), set(_list_unread_tables(sources)))
    tables: ValidConfigs[TableConfig] = building.validate(
        "table", ((document, TableConfig) for document in sources.tables)
    )
    jobs: ValidConfigs[JobConfig] = building.validate(
        "job", ((document, choose_job_model(document.values)) for document in sources.jobs)
    )
    building.errors.sort(key=lambda error: (error.path != sources.main.path, str(error.path)))
    building.errors += find_misplaced_files((*sources.tables, *sources.jobs), sources.root)
    building.errors += find_mistakes(sources.config, tables, jobs, building.broken)
    if building.errors:
        raise InvalidProjectError(list(report_once(building.errors)))
    ordered = {name: tables.items[name] for name in sort_by_dependencies(tables.items)}
    files = {name: document.path for name, document in tables.origins.items()}
    job_files = {name: document.path for name, document in jobs.origins.items()}
    project = Project(
        sources.root,
        sources.config,
        ordered,
        jobs.items,
        files,
        job_files,
        renamed_fields=sources.renamed_fields,
    )
    documents = Documents(
        sources.main, {name: tables.origins[name] for name in ordered}, jobs.origins
    )
    if unsupported := list(find_unsupported_features(project, documents)):
        raise InvalidProjectError(list(report_once(unsupported)))
    return project


def _list_unread_tables(sources: ProjectFiles) -> Iterator[str]:
    """Yield table names from files that failed to parse, since other files may refer to them."""
    for error in sources.errors:
        text = error.path.read_bytes() if error.path.is_file() else b""
        if name := _NAME.search(text.decode(errors="replace")):
            yield name[1]


@dataclass
class _Building:
    sources: ProjectFiles
    errors: list[ConfigError]
    broken: set[str] = field(default_factory=set)
    """Tables whose files are invalid; their errors are already reported."""

    def validate(
        self, kind: str, documents: "Iterable[tuple[Document, type[_Config]]]"
    ) -> "ValidConfigs[_Config]":
        """Validate documents and return the valid ones by name.

        Reports an error for a name that is defined twice; table names are compared ignoring case.
        """
        found: ValidConfigs[_Config] = ValidConfigs()
        names: dict[str, str] = {}
        for document, model in documents:
            zone = self.sources.config.timezone
            config = validate_document(document, model, self.errors, zone=zone)
            name = str(document.values.get(kind))
            if config is None:
                self.broken.add(name)
                continue
            twin = names.setdefault(name.lower() if kind == "table" else name, name)
            if twin in found.items:
                problem = f"{kind} {name} is defined twice, first in {found.origins[twin].place}"
                self.errors.append(document.error((kind,), problem))
                continue
            found.items[name], found.origins[name] = config, document
        return found


def _expand_documents(
    paths: Iterable[Path], root: Path, errors: list[ConfigError]
) -> Iterator[Document]:
    """Yield the documents of the files, with templates expanded.

    Files that list the items of a template are skipped.
    """
    broken: list[ConfigError] = []
    read = list(_read_documents(paths, root, broken))
    lists = {find_items_file(document) for document in read}
    errors += [error for error in broken if error.path.resolve() not in lists]
    for document in read:
        try:
            yield from expand(document, root)
        except ConfigError as error:
            errors.append(error)
        except InvalidProjectError as several:
            errors += several.errors


def _read_documents(
    paths: Iterable[Path], root: Path, errors: list[ConfigError]
) -> Iterator[Document]:
    """Yield the documents of files; a link to a folder or out of the project is an error."""
    for path in paths:
        if path.is_symlink() and path.is_dir():
            problem = "it must not be a symbolic link to a folder, whose files are not read"
            errors.append(ConfigError(path, None, "", problem, "move the folder here"))
            continue
        if not path.resolve().is_relative_to(root):
            problem = "it must not be a symbolic link to a file outside of the project folder"
            fix = "copy the file into the project folder"
            errors.append(ConfigError(path, None, "", problem, fix))
            continue
        try:
            yield unwrap_component(read_document(path))
        except ConfigError as error:
            errors.append(error)


def _rename_fields(
    documents: Iterable[Document],
    model: type[BaseModel],
    errors: list[ConfigError],
    hints: list[ConfigError],
) -> Iterator[Document]:
    """Yield documents with the current names of their fields; adds a hint for each former name."""
    for document in documents:
        try:
            renamed, found = with_current_names(document, model)
        except ConfigError as error:
            errors.append(error)
            continue
        hints += found
        yield renamed


def _merge_defaults(document: Document, defaults: Mapping[str, Any]) -> Document:
    """Return the document with the project's defaults that apply to its incremental type.

    Key, offset and batch ranges have no start or end time. Tables that take upstream deliveries
    have no freshness deadline.
    """
    kind = get_incremental_type(document.values.get("incremental_type"))
    of_time = ("default_start", "end", "ordered") if kind.is_sliced else ()
    of_clocks = ("freshness",) if kind.takes_upstream_batches else ()
    left_out = {*of_time, *of_clocks}
    meant = {name: value for name, value in defaults.items() if name not in left_out}
    return replace(document, values={**meant, **document.values})


def _list_yaml_files(folder: Path, pattern: str) -> list[Path]:
    """Return the YAML files of a folder, and links to folders, into which no pattern leads."""
    return sorted(
        path
        for path in folder.glob(pattern)
        if path.suffix.lower() in (".yaml", ".yml") or (path.is_symlink() and path.is_dir())
    )
