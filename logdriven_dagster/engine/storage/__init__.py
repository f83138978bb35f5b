"""File system access: storage operations, locations and the staging folders of jobs."""
