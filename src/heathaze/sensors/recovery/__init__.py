"""Recovery of sources from noisy readings: posterior sampling, basis pursuit, and peaks."""
