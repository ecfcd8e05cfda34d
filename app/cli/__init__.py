"""The command line: parses, calls the service floor and prints."""
