"""SECRET SIDE: files to bounded integer counts."""
