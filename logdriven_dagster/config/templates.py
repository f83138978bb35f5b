"""One file for many similar tables: `for_each`."""

from collections.abc import Iterator

from logdriven_dagster.config.documents import Document


def expanded(document: Document) -> Iterator[Document]:
    """The documents that a file stands for: itself, unless it is a template."""
    yield document
