"""Put known bugs back into copies of the source, one at a time, and check that a named test catches each of them.

    python -m mutants                  run all bugs, two at a time
    python -m mutants --only NAME ...  run some bugs
    python -m mutants --list           list all bugs

The bugs are in ``mutants/known``, one file for each part of the package. ``CONTRIBUTING.md`` says how to add a bug.
"""
