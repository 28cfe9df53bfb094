"""SECRET SIDE: read visits, readings and tables from files, and count visits with a bounded mass for each unit."""
