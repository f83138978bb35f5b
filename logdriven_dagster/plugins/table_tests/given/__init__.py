"""Given rows of tests: their columns and values, the files that hold them, and their reader."""
