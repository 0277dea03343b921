"""Benchmarks and other measurements, among them the speed measurements that `make bench` runs."""
