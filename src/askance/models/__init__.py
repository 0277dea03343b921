"""Adapters of the `Model` port."""
