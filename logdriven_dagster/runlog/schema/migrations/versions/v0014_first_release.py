"""The schema of the first release. New logs get it from the models, so nothing is migrated.

Until that release is tagged, a change of the models gets no migration: this file gets the next
number, and logs of earlier numbers are refused.
"""

revision = "0014"
down_revision = None


def upgrade() -> None:
    """Change nothing: no released version made a log that this one must migrate."""
