"""Benchmarks that compare Heathaze with other libraries in one run on the same machine."""
