"""The privacy rules: guarantees, events and their privacy loss, ledgers, random bits and noise."""
