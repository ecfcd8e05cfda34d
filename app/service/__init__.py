"""Wires the floors below into the things people do: run, wait, report, demo."""
