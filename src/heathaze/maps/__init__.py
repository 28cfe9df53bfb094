"""Pictures and pages of maps. The code sees public things only: a density, a guarantee, and facts about a release."""
