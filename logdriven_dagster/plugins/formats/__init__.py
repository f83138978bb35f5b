"""Avro files, Excel workbooks, fixed-width text and XML as sources; extras install libraries."""
