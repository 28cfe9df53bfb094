"""The command line ``heathaze``: one file for each command."""
