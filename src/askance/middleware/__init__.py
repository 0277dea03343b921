"""Wrappers that implement the port they wrap: budget and trace, cache, retry."""
