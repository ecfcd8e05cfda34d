"""The HTTP API and the dashboard: reads the store, writes wishes, never acts."""
