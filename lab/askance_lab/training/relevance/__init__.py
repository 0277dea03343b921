"""Train a cross-encoder to judge whether a passage helps to answer a question."""
