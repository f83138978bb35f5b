"""Validation of a project as a whole."""
