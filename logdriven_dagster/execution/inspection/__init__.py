"""Questions about queries and published rows: analysis, audit, comparison."""
