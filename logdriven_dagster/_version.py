"""The version of the package; a test compares it with both pyproject files."""

__version__ = "0.1.0"
