"""YAML parsing: values with the lines of their fields, and errors in plain words."""
