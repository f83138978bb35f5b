"""The first schema; new logs are made from `schema.py` at once, see `migrating.upgrade`."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing comes before it."""
