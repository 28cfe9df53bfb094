"""WHERE: public, fixed before any data is read."""
