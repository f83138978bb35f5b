"""Sources of files: which there are, and records read so that no value changes in silence."""
