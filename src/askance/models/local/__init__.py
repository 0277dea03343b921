"""Models that run in this process: their common base, prompt encoding, chat templates and files."""
