"""Mistakes that only show when a project is looked at as a whole."""
