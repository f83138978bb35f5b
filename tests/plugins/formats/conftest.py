"""The laboratory of the engine's tests, on a disk or in a bucket; and a project with a runner."""

from tests.engine.conftest import lab, pytest_collection_modifyitems
from tests.execution.conftest import world

__all__ = ["lab", "pytest_collection_modifyitems", "world"]
