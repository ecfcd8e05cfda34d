"""Seventh floor: what is told to people elsewhere: the outbox and its channels."""
