"""Importers of existing definitions: database schemas, Kettle's tables, Sharp ETL's workflow files.

Each importer only reads: it converts its input into drafts of files, and lists everything that it
cannot translate. `writing` validates the drafts against the project and writes them.
"""
