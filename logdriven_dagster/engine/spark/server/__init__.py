"""The project's own Spark Connect server: start, discovery and stop."""
