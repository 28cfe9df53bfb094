"""What the papers' folders share: run trials, compare numbers with claims, print tables, draw curves."""
