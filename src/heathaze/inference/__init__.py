"""From noisy numbers to a density. It sees nothing secret. What one model alone needs is in that model's folder."""
