"""The project's own Spark Connect server: started, found again, stopped."""
