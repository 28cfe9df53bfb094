"""From rows of a file to integer mass: what one person can weigh."""

from mutants.bug import Bug

COUNT = "src/heathaze/ingest/count.py"
COUNTS = "src/heathaze/ingest/counts.py"
CELLS = "src/heathaze/ingest/count_cells.sql"
POSITIONS = "src/heathaze/ingest/positions.py"

BUGS = (
    Bug(
        "mass-plus-one",
        "The masses of one person add up to at most the bound.",
        CELLS,
        "/ whole + 0.5) as bigint)",
        "/ whole + 1.5) as bigint)",
        "tests/ingest/test_count.py::test_shares_of_a_person_are_floors_of_the_mass",
    ),
    Bug(
        "one-cell-more",
        "With at_most = k one person counts in at most k cells.",
        CELLS,
        "where abs(place) <= ?",
        "where abs(place) - 1 <= ?",
        "tests/ingest/test_count.py::test_at_most_keeps_that_many_cells_and_the_whole_mass",
    ),
    Bug(
        "bound-check-off",
        "Counts in which a unit weighs more than the bound are refused.",
        COUNT,
        "        raise SensitivityExceeded(\n",
        "        _ = SensitivityExceeded(\n",
        "tests/ingest/test_count.py::test_a_unit_that_weighs_too_much_is_refused",
    ),
    Bug(
        "two-reports-a-person",
        "A person of a file sends one report, however many rows they have.",
        POSITIONS,
        "        order = order[np.sort(first)]\n",
        "        order = order[: len(order)]\n",
        "src/heathaze/ingest/positions.py::heathaze.ingest.positions.positions",
    ),
    Bug(
        "counts-print-their-values",
        "Counts print no number of the data.",
        COUNTS,
        'return f"<Counts: secret, on {self.grid.rows}',
        'return f"<Counts: secret {self.mass.tolist()}, on {self.grid.rows}',
        "tests/contract/test_the_door.py::test_counts_print_the_same_whatever_they_hold",
    ),
)
