"""Runs of an evaluation: their settings, their records on disk, and grids of runs."""
