"""What every query of the run log uses: the database's clock, long lists, texts."""
