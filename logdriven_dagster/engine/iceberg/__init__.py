"""Iceberg tables as sources and targets share them: names, types, and the rows of files."""
