"""Those who run the SQL."""
