"""Databases as sources and targets share them: connections, types, exact values, statements."""
