"""Scaling of AirRAG with inference compute: curves and compute-optimal presets."""
