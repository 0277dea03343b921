"""Teaching a small model to read: from questions with known grounds to an adapter."""
