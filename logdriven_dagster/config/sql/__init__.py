"""Static analysis of queries with sqlglot: tables, columns, windows. Needs no database."""
