"""Teaching a small model to read: from questions with known supporting facts to an adapter."""
