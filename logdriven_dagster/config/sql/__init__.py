"""What queries say before they run: tables, columns, windows. Offline, by sqlglot."""
