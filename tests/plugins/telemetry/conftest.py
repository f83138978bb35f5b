"""The small project of the tests of execution."""

from tests.execution.conftest import world

__all__ = ["world"]
