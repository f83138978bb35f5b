"""An attempt in Spark: the steps of one window, or of several that run in one pass."""
