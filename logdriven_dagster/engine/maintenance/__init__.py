"""The work of maintenance jobs: statements of SQL and Python functions."""
