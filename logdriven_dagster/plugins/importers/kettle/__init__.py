"""Importer of Kettle's configuration tables and transformations."""
