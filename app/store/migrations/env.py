"""Run by Alembic: migrates on the connection that it is handed, inside that connection's transaction."""

from alembic import context

from app.store.models import ServerRow

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=ServerRow.metadata, compare_type=True, transactional_ddl=True)
context.run_migrations()
