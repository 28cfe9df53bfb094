"""Ratios against named peers, taken in one run."""
