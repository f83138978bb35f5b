"""File sources and targets: self-describing formats, and text formats."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from logdriven_dagster.config.models.fields import LocationText
from logdriven_dagster.config.models.types.declared_columns import (
    find_column_mistakes,
    find_declared_type,
    list_declared_columns,
)
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import FolderTarget
from logdriven_dagster.config.models.types.time_columns import TimeColumn, explain_not_a_time
from logdriven_dagster.config.yaml.field_names import Formerly

_OF_REGISTERED_FILES = frozenset({"detect_changes_by", "on_empty", "after_success", "move_to"})
_MAP_OF_OTHER_KEYS = re.compile(r"\bmap\s*<\s*(?!string\b|\$)(\w+)", re.IGNORECASE)
_ONE_FILE = re.compile(r"(?:\$\{|[^*?\[{])+\.\w+")
_NAMED_FILES = re.compile(r"(?:.*/)?[^/]+\.\w+")


FileFact: TypeAlias = Literal[
    "file_path", "file_name", "file_size", "file_modification_time", "row_index"
]


class FilesSource(Source):
    """Common fields of sources of files, also for files registered one by one.

    Sources: BDRE, file registry; Sharp ETL, throwExceptionIfEmpty and deleteSource.
    """

    path: str = Field(
        description="a file, folder, glob or URL; relative to the project folder",
        examples=["data/orders-*.csv"],
    )
    columns: str | None = Field(
        None,
        description="the columns with their types, as Spark DDL; default: Spark infers them "
        "from the files",
        examples=["id BIGINT, at TIMESTAMP"],
    )
    file_columns: dict[str, FileFact] = Field(
        default_factory=dict,
        description="additional columns with facts about the file of each row, as in Spark's "
        "`_metadata`: the name of each column, and the fact",
        examples=[{"loaded_from": "file_name"}],
    )
    missing_files: Literal["fail", "no_rows", "wait"] = Field(
        "fail",
        description="without files for a window in this place: fail the window, read no rows, or "
        "wait until there are files; for incremental_type files, see on_empty",
    )
    detect_changes_by: Annotated[Literal["modified", "hash"], Formerly("version")] = Field(
        "modified",
        description="the change that makes a known path a new file: size and modification "
        "time, or the hash of the content",
    )
    on_empty: Literal["skip_following_steps", "succeed", "fail"] = Field(
        "skip_following_steps",
        description="the action without new files: run nothing; run the steps without its "
        "rows; or fail the window",
    )
    after_success: Literal["keep", "delete", "move"] = Field(
        "keep", description="the action for files whose rows are published"
    )
    move_to: str | None = Field(
        None, description="after_success move: the folder to move them to", examples=["done"]
    )

    @model_validator(mode="after")
    def _check_row_index(self) -> "FilesSource":
        if "row_index" in self.file_columns.values() and self.type != "parquet":
            raise ValueError("file_columns: row_index is only known for parquet; remove it")
        return self

    @model_validator(mode="after")
    def _check_move(self) -> "FilesSource":
        if (self.after_success == "move") != (self.move_to is not None):
            raise ValueError("after_success: move and move_to belong together")
        return self

    @property
    def place(self) -> str:
        return self.path

    def uses(self) -> Iterator[tuple[str, str]]:
        yield "source", self.path

    @property
    def texts(self) -> Mapping[str, str]:
        return {"path": self.path}

    @property
    def folders(self) -> Mapping[str, str | None]:
        return {"move_to": self.move_to}

    def only_of_slices(self) -> Iterator[str]:
        if given := _OF_REGISTERED_FILES & self.model_fields_set:
            yield f"{', '.join(sorted(given))}: only for incremental_type files"
        yield from super().only_of_slices()

    @property
    def known_columns(self) -> frozenset[str] | None:
        # Spark turns folders such as day=2022-01-01 into columns, but not if files are named.
        if self.columns is None or "${" in self.columns or "basePath" in self.options:
            return None
        if not _NAMED_FILES.fullmatch(self.path):
            return None
        return list_declared_columns(self.columns) | self.file_columns.keys()

    def mistakes(self) -> Iterator[tuple[str, str, str | None]]:
        if self.missing_files == "no_rows" and self.columns is None:
            yield "missing_files", "no_rows needs the columns of the files", "set columns"
        if self.columns is None or "${" in self.columns:
            return
        names = {name.lower() for name in list_declared_columns(self.columns)}
        if both := [name for name in self.file_columns if name.lower() in names]:
            yield "file_columns", f"{both[0]} is also in columns", "choose another name"
        # Spark turns folders such as day=2022-01-01 into columns.
        is_whole = _ONE_FILE.fullmatch(self.path) and "basePath" not in self.options
        named = {"window_column": self.window_name, "key_column": self.key_column}
        yield from find_column_mistakes(self.columns, named if is_whole else {})
        kind = find_declared_type(self.columns, self.window_name or "")
        if kind is not None and (problem := self._explain_misfit(kind)):
            yield "window_column", problem, None

    def _explain_misfit(self, kind: str) -> str | None:
        """Return the reason why a column of this type cannot be the window column, or None."""
        column = self.window_column
        if isinstance(column, TimeColumn):
            return column.refusal(kind)
        return explain_not_a_time(str(column), kind)


class FileSource(FilesSource):
    """Files of a format that stores its own types, such as Parquet."""

    reader = "logdriven_dagster.engine.sources.files.typed.readers:TypedFilesReader"

    type: Literal["parquet", "orc"]


_FIELDS_OF_OPTIONS = {
    "mode": "mode",
    "sep": "sep",
    "delimiter": "sep",
    "header": "header",
    "nullvalue": "null_value",
    "multiline": "multiline",
}
"""Options of Spark's readers that text sources have as fields of their own."""


_TIME_FORMATS = frozenset({"timestampformat", "timestampntzformat"})
_FALLBACK = "enabledatetimeparsingfallback"
_NOT_ALWAYS = re.compile(r"'[^']*'|\[[^\]]*\]")
"""Texts in quotes and optional parts of a format."""
_YEAR = re.compile("[yu]")


class RecordsSource(FilesSource):
    """Files of text, whose records may be malformed."""

    reader = "logdriven_dagster.engine.sources.files.readers:RecordsReader"

    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"] = Field(
        "FAILFAST",
        description="for malformed records: FAILFAST fails the window; PERMISSIVE sets "
        "unreadable values to NULL; DROPMALFORMED drops the records. The log has "
        "their number in the last two cases",
    )

    @model_validator(mode="after")
    def _check_record_fields(self) -> "RecordsSource":
        for name in self.options:
            field = _FIELDS_OF_OPTIONS.get(name.lower())
            if field in type(self).model_fields:
                raise ValueError(
                    f"options.{name}: write it as {field} of the source, not as an option"
                )
        return self

    @model_validator(mode="after")
    def _check_time_formats(self) -> "RecordsSource":
        for name, value in self.options.items():
            if name.lower() in _TIME_FORMATS and not _YEAR.search(_NOT_ALWAYS.sub("", str(value))):
                raise ValueError(
                    f"options.{name}: {value} does not always have a year, and Spark would read "
                    "other times as times of 1970; add yyyy outside of the brackets, or read the "
                    "column as STRING and parse it in the query"
                )
            if name.lower() == _FALLBACK and str(value).lower() == "true":
                raise ValueError(
                    f"options.{name}: Spark would read 10:00 as a time of today; remove it, and "
                    "write optional parts in brackets, as in timestampFormat: "
                    "yyyy-MM-dd HH:mm[:ss]"
                )
        return self

    def _explain_misfit(self, kind: str) -> str | None:
        if isinstance(self.window_column, TimeColumn) and kind.startswith(("decimal", "numeric")):
            return f"{kind} of a text is not a number; write BIGINT or DOUBLE in columns"
        return super()._explain_misfit(kind)

    @property
    def is_strict(self) -> bool:
        """True if a malformed record fails its window."""
        return self.mode == "FAILFAST"

    @property
    def drops_records(self) -> bool:
        return self.mode == "DROPMALFORMED"

    def whole(self) -> "RecordsSource":
        options = {**self.options, "columnPruning": True}
        return self.model_copy(update={"mode": "PERMISSIVE", "options": options})


class TextSource(RecordsSource):
    """Lines of text, in a column `value`."""

    type: Literal["text"]


class CsvSource(RecordsSource):
    """Comma-separated files, with quotes doubled within quotes (RFC 4180)."""

    type: Literal["csv"]
    header: bool = Field(False, description="whether the first line of each file is a header")
    sep: str = Field(",", description="the separator of columns", examples=[";"])
    null_value: str | None = Field(
        None,
        description="the text for NULL, with or without quotes; default: no text between two "
        'separators is NULL, and `""` is an empty text',
        examples=["NULL"],
    )

    @model_validator(mode="after")
    def _check_encoding(self) -> "CsvSource":
        given = {name.lower(): value for name, value in self.options.items()}
        encoding = str(given.get("encoding") or given.get("charset") or "").upper()
        if given.get("multiline") or not re.match(r"UTF.?(16|32)", encoding):
            return self
        if "linesep" not in given or not encoding.endswith("E"):
            raise ValueError(
                f"options.encoding: Spark finds no lines in {encoding}; write UTF-16LE or UTF-16BE "
                'together with lineSep: "\\n", or multiLine: true'
            )
        return self


class JsonSource(RecordsSource):
    """JSON lines, or whole documents with `multiline`."""

    type: Literal["json"]

    @model_validator(mode="after")
    def _check_encoding(self) -> "JsonSource":
        given = {name.lower(): value for name, value in self.options.items()}
        encoding = str(given.get("encoding") or given.get("charset") or "UTF-8").upper()
        whole = self.multiline or given.get("multiline")
        if encoding.replace("_", "-") not in ("UTF-8", "UTF8") and not (
            whole or "linesep" in given
        ):
            raise ValueError(
                f"options.encoding: Spark finds no lines of JSON in {encoding}; write it together "
                'with lineSep: "\\n", or write multiline: true'
            )
        return self

    def mistakes(self) -> Iterator[tuple[str, str, str | None]]:
        yield from super().mistakes()
        if found := _MAP_OF_OTHER_KEYS.search(self.columns or ""):
            problem = f"the keys of JSON objects are texts, not {found[1].upper()}"
            yield "columns", problem, "write MAP<STRING, …>, and CAST the keys in the query"

    multiline: bool = Field(
        False,
        description="whether a file is one JSON document or one list of documents over several "
        "lines",
    )
    unknown_fields: Literal["refuse", "ignore"] = Field(
        "refuse",
        description="for fields that are not in columns: fail the window, or ignore them",
    )


class FileTarget(FolderTarget):
    """Plain files below the warehouse, published window by window."""

    store = "logdriven_dagster.engine.targets.files.table:WindowFiles"
    contents = "logdriven_dagster.engine.targets.files.contents:FilesContents"
    creates_files_once = True

    type: Literal["parquet", "orc", "csv", "json"]
    mode: Literal["append", "overwrite_window", "overwrite"] = Field(
        "overwrite_window",
        description="the write mode: append adds rows; overwrite_window replaces the rows of "
        "the window; overwrite replaces all rows",
    )
    path: LocationText | None = Field(
        None,
        description="a folder or URL; `<warehouse>/<layer>/<name>` by default",
        examples=["export/orders"],
    )
    existing_rows: Literal["refuse", "keep"] = Field(
        "refuse",
        description="for other files in the folder before the first window: refuse the window; "
        "or keep them there, where readers of this table do not see them",
    )
