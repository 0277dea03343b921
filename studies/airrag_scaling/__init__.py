"""Scaling of AirRAG with inference compute: smaller databases, compute-optimal presets, and equal tokens."""
