"""Judging recorded runs by models: whether citations bear sentences out, and which facts are true."""
