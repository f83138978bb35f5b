"""Data derived from a project's files: graph, relations, uses, processes, needs."""
