"""Inference of a density from noisy numbers. The code sees no secret data. Code for a single model is in its folder."""
