"""Pictures and pages of densities. They get public things only: a density, a guarantee, facts."""
