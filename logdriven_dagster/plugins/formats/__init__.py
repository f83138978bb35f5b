"""Avro files and Excel workbooks as sources; the extras `avro` and `excel` install the readers."""
