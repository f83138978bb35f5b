"""Where bytes live: what is asked of a file system, and the folders that jobs stage rows in."""
