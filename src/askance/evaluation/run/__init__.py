"""One run of an evaluation: its settings, its records on the disk, and grids of runs."""
