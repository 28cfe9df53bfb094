"""SECRET SIDE: read visits, readings and tables from files, and count visits so that one unit has bounded mass."""
