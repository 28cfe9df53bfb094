"""Finding sources from protected readings."""
