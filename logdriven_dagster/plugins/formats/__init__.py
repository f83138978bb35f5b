"""Avro files, Excel workbooks and fixed-width text as sources; extras install the libraries."""
