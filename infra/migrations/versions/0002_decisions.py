"""Decisions of retraining."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("decided_at", sa.DateTime, nullable=False),
        sa.Column("lifecycle_id", sa.String(40), nullable=False),
        sa.Column("recipe", sa.String(40), nullable=False),
        sa.Column("sources", sa.String(64), nullable=False, index=True),
        sa.Column("champion", sa.String(64), nullable=False),
        sa.Column("challenger", sa.String(64), nullable=False),
        sa.Column("outcome", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("decision", sa.JSON, nullable=False),
        sa.Column("frozen", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("decisions")
