"""YAML as text: read with the places of its fields, and its mistakes in plain words."""
