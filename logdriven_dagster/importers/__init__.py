"""Bringing what people have: a database's schema, Kettle's tables, Sharp ETL's workflow files.

Each importer is pure but for what it reads: it turns that into drafts of files, and lists whatever
it cannot translate. `writing` holds the drafts against the project and writes them.
"""
