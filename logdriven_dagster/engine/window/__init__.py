"""One attempt in Spark: the steps of a window, or of several that run in one pass."""
