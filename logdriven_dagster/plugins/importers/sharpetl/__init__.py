"""Importer of Sharp ETL's workflow files."""
