"""Delta table support that sources and targets share: open, validate, find files, read rows."""
