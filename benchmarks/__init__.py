"""Benchmarks and measurements; `make bench` runs the measurements of speed."""
