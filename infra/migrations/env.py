"""Alembic environment: migrates over the connection that infra/schema.py hands in."""

from alembic import context

from infra import decisions  # noqa: F401  its table is one of ours
from infra.lineage import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
