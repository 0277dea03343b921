"""Train a cross-encoder to tell whether a passage helps to answer a question."""
