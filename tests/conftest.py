"""Fixtures that several suites share."""

pytest_plugins = ["tests.servers"]
