"""Ground floor: plain data types, the command model and flag-catalogue data. Imports nothing of ours above it."""
