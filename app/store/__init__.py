"""Sixth floor: incidents, launches, transitions and fixes in SQLite."""
