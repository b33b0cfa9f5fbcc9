"""Benchmarks: one script a figure; `make bench` runs them all."""
