"""Alembic environment: migrates over the connection that infra/schema.py hands in."""

from alembic import context

from infra.lineage import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
