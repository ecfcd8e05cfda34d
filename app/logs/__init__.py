"""Second floor: from bytes to hits and events, streaming and in bounded memory."""
