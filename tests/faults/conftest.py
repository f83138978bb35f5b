"""The small project of the execution tests."""

from tests.execution.conftest import spark, world

__all__ = ["spark", "world"]
