"""YAML as text: read with the places of its fields, and told in plain words where it is wrong."""
