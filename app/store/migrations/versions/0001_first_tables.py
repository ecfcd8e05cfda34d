"""Servers, launches, incidents and what was done about them.

A later step that alters `audit` or `transition` in batch mode must create their triggers anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Applies this step."""
    _audit()
    _server()
    _incident()
    _proposal()
    _attempt()
    _decision()
    _launch()
    _diagnosis()
    _transition()
    # What happened can be added to, never rewritten; only the mark of who acts on it is set later.
    for table, columns in (("audit", ""), ("transition", "OF id, at, server, incident_id, launch_id, kind, text ")):
        op.execute(
            f"CREATE TRIGGER {table}_is_append_only BEFORE UPDATE {columns}ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
    op.execute(
        "CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END"
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("server", sa.String(), nullable=True),
        sa.Column("incident_id", sa.Integer(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )


def _server() -> None:
    op.create_table(
        "server",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("engine", sa.String(32), nullable=True),
        sa.Column("mode", sa.String(32), nullable=True),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=True),
        sa.Column("since", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("decision", sa.String(32), nullable=False),
        sa.Column("launch_id", sa.Integer(), nullable=True),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("last_good_command", sa.JSON(), nullable=True),
        sa.Column("health_url", sa.String(), nullable=True),
        sa.Column("supervisor_pid", sa.Integer(), nullable=True),
        sa.Column("supervisor_mark", sa.String(), nullable=True),
        sa.Column("supervisor_since", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )


def _incident() -> None:
    op.create_table(
        "incident",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("category", sa.String(32), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("opened_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("resolved_at", sa.DateTime(), nullable=True),
        sa.Column("regressed", sa.Boolean(), nullable=False),
        sa.Column("acknowledged", sa.Boolean(), nullable=False),
        sa.Column("muted_until", sa.DateTime(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["server"], ["server.name"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_incident_episode", "incident", ["server", "status", "updated_at"])
    op.create_index("ix_incident_fingerprint", "incident", ["fingerprint"])
    op.create_index("ix_incident_server", "incident", ["server"])
    op.create_index("ix_incident_status", "incident", ["status"])


def _proposal() -> None:
    op.create_table(
        "proposal",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("launch_id", sa.Integer(), nullable=True),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("fix", sa.JSON(), nullable=True),
        sa.Column("safety", sa.String(32), nullable=False),
        sa.Column("loses", sa.JSON(), nullable=False),
        sa.Column("guards", sa.JSON(), nullable=False),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("command_hash", sa.String(), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("proposed_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_proposal_incident_id", "proposal", ["incident_id"])
    op.create_index(
        "ux_proposal_open", "proposal", ["incident_id"], unique=True, sqlite_where=sa.text("status = 'proposed'")
    )


def _attempt() -> None:
    op.create_table(
        "attempt",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("proposal_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("fix", sa.JSON(), nullable=True),
        sa.Column("safety", sa.String(32), nullable=True),
        sa.Column("loses", sa.JSON(), nullable=False),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("command_hash", sa.String(), nullable=False),
        sa.Column("approved_by", sa.String(), nullable=True),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=True),
        sa.Column("supervisor_pid", sa.Integer(), nullable=False),
        sa.Column("supervisor_mark", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"]),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"]),
        sa.ForeignKeyConstraint(["server"], ["server.name"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_attempt_incident_id", "attempt", ["incident_id"])
    op.create_index("ix_attempt_proposal_id", "attempt", ["proposal_id"])
    op.create_index("ix_attempt_record", "attempt", ["rule", "fingerprint"])
    op.create_index("ix_attempt_server", "attempt", ["server"])
    op.create_index(
        "ux_attempt_command",
        "attempt",
        ["incident_id", "command_hash"],
        unique=True,
        sqlite_where=sa.text("kind = 'relaunch' AND outcome != 'interrupted'"),
    )


def _decision() -> None:
    op.create_table(
        "decision",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("proposal_id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("wish", sa.String(32), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("claimed_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"]),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"]),
        sa.ForeignKeyConstraint(["server"], ["server.name"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_decision_incident_id", "decision", ["incident_id"])
    op.create_index("ix_decision_proposal_id", "decision", ["proposal_id"], unique=True)
    op.create_index("ix_decision_server", "decision", ["server"])


def _launch() -> None:
    op.create_table(
        "launch",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=True),
        sa.Column("attempt_id", sa.Integer(), nullable=True),
        sa.Column("engine", sa.String(32), nullable=True),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("command_hash", sa.String(), nullable=False),
        sa.Column("ran", sa.Boolean(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("pgid", sa.Integer(), nullable=True),
        sa.Column("pid_mark", sa.String(), nullable=True),
        sa.Column("log_path", sa.String(), nullable=True),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=True),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("percent", sa.Float(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("exit_signal", sa.String(), nullable=True),
        sa.Column("asked", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"]),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"]),
        sa.ForeignKeyConstraint(["server"], ["server.name"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_launch_attempt_id", "launch", ["attempt_id"], unique=True)
    op.create_index("ix_launch_incident_id", "launch", ["incident_id"])
    op.create_index("ix_launch_server", "launch", ["server"])


def _diagnosis() -> None:
    op.create_table(
        "diagnosis",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("launch_id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=True),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("category", sa.String(32), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"]),
        sa.ForeignKeyConstraint(["launch_id"], ["launch.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_diagnosis_category", "diagnosis", ["category"])
    op.create_index("ix_diagnosis_incident_id", "diagnosis", ["incident_id"])
    op.create_index("ix_diagnosis_launch_id", "diagnosis", ["launch_id"], unique=True)


def _transition() -> None:
    op.create_table(
        "transition",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("server", sa.String(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=True),
        sa.Column("launch_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("claimed_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"]),
        sa.ForeignKeyConstraint(["launch_id"], ["launch.id"]),
        sa.ForeignKeyConstraint(["server"], ["server.name"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_transition_incident_id", "transition", ["incident_id"])
    op.create_index(
        "ix_transition_queue",
        "transition",
        ["server", "id"],
        unique=False,
        sqlite_where=sa.text("claimed_at IS NULL AND kind = 'died'"),
    )
    op.create_index("ix_transition_server", "transition", ["server"])
    op.create_index(
        "ux_transition_death", "transition", ["launch_id"], unique=True, sqlite_where=sa.text("kind = 'died'")
    )
