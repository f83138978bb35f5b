"""Where bytes live: folders that attempts stage files in, and the files in them."""
