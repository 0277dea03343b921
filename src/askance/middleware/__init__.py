"""Wrappers of a port that are that port themselves: budget and trace, cache, retry."""
