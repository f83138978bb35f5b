"""Delta tables as sources and targets share them: opened, checked, files found and read."""
