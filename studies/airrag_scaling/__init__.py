"""Scaling of AirRAG with inference compute: curves, compute-optimal presets, and the tables of the paper."""
