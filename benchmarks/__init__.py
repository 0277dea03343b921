"""Measurements. `make bench` runs them all; each is a function that returns rows."""
