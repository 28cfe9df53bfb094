"""THE RULES OF THE WALL: what is promised, what it costs, and the noise that keeps it."""
