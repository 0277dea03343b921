"""The commands that train models, and that annotate rows to learn from."""
