"""The area of a map: grids, quadtrees, partitions and densities. Grids are public and fixed before data is read."""
