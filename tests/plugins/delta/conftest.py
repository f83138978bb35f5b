"""The laboratory of the engine's tests, on a disk or in a bucket."""

from tests.engine.conftest import lab, pytest_collection_modifyitems

__all__ = ["lab", "pytest_collection_modifyitems"]
