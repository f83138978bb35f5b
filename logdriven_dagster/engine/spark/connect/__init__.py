"""Sessions of Spark Connect, which a server runs for this process."""
