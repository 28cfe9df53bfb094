"""The mutation gate: known bugs are put back one at a time, and a named test must catch each of them.

    python -m mutants                  all bugs, two at a time
    python -m mutants --only NAME ...  some of them
    python -m mutants --list           what there is

The bugs lie in ``mutants/known``, one file for each part of the package. ``CONTRIBUTING.md`` says how to add one.
"""
