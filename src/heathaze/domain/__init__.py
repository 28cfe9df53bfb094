"""Where: grids, quadtrees, partitions and densities. All of it is public and fixed before any data is read."""
