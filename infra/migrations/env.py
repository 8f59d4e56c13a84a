"""Alembic environment: migrates over the connection that infra.lineage hands in, or over `-x url=...` by hand."""

from alembic import context
from sqlalchemy import create_engine

from infra.lineage import Base

connection = context.config.attributes.get("connection")
if connection is None:
    connection = create_engine(context.get_x_argument(as_dictionary=True)["url"]).connect()
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
