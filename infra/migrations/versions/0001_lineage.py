"""First lineage schema: artifacts, stage runs with their links and metric points, lifecycles."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "artifacts",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(40), primary_key=True),
        sa.Column("num_bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "stage_runs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("stage", sa.String(40), nullable=False, index=True),
        sa.Column("key", sa.String(64), nullable=False, index=True),
        sa.Column("seed", sa.Integer, nullable=False),
        *(sa.Column(name, sa.JSON, nullable=False) for name in ("config", "inputs", "outputs", "metrics")),
        sa.Column("code_digest", sa.String(64), nullable=False),
        sa.Column("environment", sa.JSON, nullable=False),
        sa.Column("host", sa.String(200), nullable=False),
        sa.Column("started_at", sa.DateTime, nullable=False),
        sa.Column("ended_at", sa.DateTime, nullable=False),
        sa.Column("wall_s", sa.Double, nullable=False),
        sa.Column("peak_rss_bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "stage_artifacts",
        sa.Column("stage_run_id", sa.Integer, sa.ForeignKey("stage_runs.id"), primary_key=True),
        sa.Column("is_output", sa.Boolean, primary_key=True),
        sa.Column("field", sa.String(60), primary_key=True),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, index=True),
    )
    op.create_table(
        "metric_points",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("stage_run_id", sa.Integer, sa.ForeignKey("stage_runs.id"), nullable=False, index=True),
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("value", sa.Double, nullable=False),
    )
    op.create_table(
        "lifecycles",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("recipe", sa.String(40), nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("started_at", sa.DateTime, nullable=False),
        sa.Column("ended_at", sa.DateTime, nullable=True),
        sa.Column("tracking_run_id", sa.String(64), nullable=False),
        sa.Column("stages", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("lifecycles", "metric_points", "stage_artifacts", "stage_runs", "artifacts"):
        op.drop_table(table)
