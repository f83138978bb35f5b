"""Fixtures that several suites share."""

import os

pytest_plugins = ["tests.servers"]

os.environ.pop("COLUMNS", None)  # workers of xdist have it, and no terminal
