"""The log of jobs: their runs and their steps."""
