"""THE WALL: a folder per trust model, a module per mechanism, a page beside each module."""
