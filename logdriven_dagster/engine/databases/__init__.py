"""Database support that sources and targets share: connections, types, values, statements."""
