"""What all tests share."""

from hypothesis import settings

# The same examples on every machine, and no clock: a test fails for what it found, never for a slow minute.
settings.register_profile("heathaze", deadline=None, derandomize=True, database=None)
settings.load_profile("heathaze")
