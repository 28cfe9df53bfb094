"""Code that the folders of all papers share: run trials, test claims, print tables, draw curves."""
