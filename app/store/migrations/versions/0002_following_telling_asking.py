"""What a service remembers beside incidents: how far it read, whom it told, what it answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Applies this step."""
    _position()
    _alert()
    _ingest()


def _position() -> None:
    op.create_table(
        "position",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("device", sa.Integer(), nullable=False),
        sa.Column("inode", sa.Integer(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("anchor", sa.Integer(), nullable=False),
        sa.Column("head_length", sa.Integer(), nullable=False),
        sa.Column("head", sa.String(64), nullable=False),
        sa.Column("launch_id", sa.Integer(), nullable=True),
        sa.Column("context", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["launch_id"], ["launch.id"]),
        sa.ForeignKeyConstraint(["server"], ["server.name"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_position_server", "position", ["server"])
    op.create_index("ux_position_file", "position", ["server", "path", "device", "inode"], unique=True)


def _alert() -> None:
    op.create_table(
        "alert",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("transition_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_alert_incident_id", "alert", ["incident_id"])
    op.create_index("ix_alert_queue", "alert", ["status", "next_at"])
    op.create_index("ux_alert_transition", "alert", ["transition_id", "kind"], unique=True)


def _ingest() -> None:
    op.create_table(
        "ingest",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("body_hash", sa.String(64), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=False),
        sa.Column("response", sa.JSON(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("ix_ingest_at", "ingest", ["at"])
