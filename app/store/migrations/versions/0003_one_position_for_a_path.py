"""One position for each followed path of a server: what lies there now."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Keeps the newest position of each path."""
    op.execute("DELETE FROM position WHERE id NOT IN (SELECT max(id) FROM position GROUP BY server, path)")
    op.drop_index("ux_position_file", "position")
    op.create_index("ux_position_file", "position", ["server", "path"], unique=True)
