"""Noisy numbers to a density; sees nothing secret."""
