"""PUBLIC SIDE: what anyone may see."""
