"""Pydantic models of the YAML files, and the types of their fields."""
