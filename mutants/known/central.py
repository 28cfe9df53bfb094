"""Known bugs of central mechanisms: what is counted, with how much noise, and by which counts cells are chosen."""

from mutants.bug import Bug

SEARCH = "src/heathaze/central/adaptive_tree.py"
GRADUAL = "src/heathaze/central/adaptive_tree.py"
PYRAMID = "src/heathaze/central/pyramid.py"
PRIV_TREE = "src/heathaze/central/priv_tree.py"
UNIFORM_GRID = "src/heathaze/central/uniform_grid.py"
ADAPTIVE_GRID = "src/heathaze/central/adaptive_grid.py"
FLAT = "src/heathaze/central/flat.py"
FLAT_TOP = "src/heathaze/central/flat.py"
DENSE = "src/heathaze/central/dense.py"
DAWA = "src/heathaze/central/dawa.py"

BUGS = (
    # ── the adaptive tree ───────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "sharp-counts-decide",
        "The adaptive tree chooses the nodes to divide by coarse noisy counts, which are paid for.",
        SEARCH,
        "estimate = seen.coarse / self.counts.bound",
        "estimate = seen.sharp / self.counts.bound",
        "tests/central/test_adaptive_tree.py::test_sharp_counts_decide_nothing",
    ),
    Bug(
        "divided-nodes-tell-their-sharp-count",
        "A node that is divided publishes only its coarse count.",
        SEARCH,
        "self.found.append((level, inner.codes, inner.coarse, inner.spent))",
        "self.found.append((level, inner.codes, inner.sharp, inner.spent))",
        "tests/central/test_adaptive_tree.py::test_divided_nodes_publish_their_coarse_count_and_leaves_their_sharp_one",
    ),
    Bug(
        "chance-of-nothing-five-per-cent-up",
        "A coarse count has noise of its own scale: the probability w of no extra noise is rounded down.",
        GRADUAL,
        "return int(ratio**2 * (1 - 2.0**-40) * 2**_BITS)",
        "return int(ratio**2 * 1.05 * 2**_BITS)",
        "tests/central/test_adaptive_tree.py::test_the_coarse_look_is_laplace_of_its_own_scale",
    ),
    Bug(
        "children-get-the-whole-budget-again",
        "From the root to any leaf the tree spends at most epsilon.",
        SEARCH,
        "nodes = _Measured(codes, spend * same, (left - spend) * same,",
        "nodes = _Measured(codes, spend * same, left * same,",
        "tests/central/test_adaptive_tree.py::test_whole_budget_on_every_path",
    ),
    Bug(
        "path-check-off",
        "A tree that spent more than its budget on a path is thrown away.",
        SEARCH,
        "        if (spent > PARTS).any():\n",
        "        if False:\n",
        "tests/central/test_adaptive_tree.py::test_overspending_is_noticed",
    ),
    Bug(
        "measured-twice-check-off",
        "A tree in which a node was measured twice is thrown away.",
        SEARCH,
        "        if (np.diff(codes) == 0).any():\n",
        "        if False:\n",
        "tests/central/test_adaptive_tree.py::test_measuring_a_node_twice_is_noticed",
    ),
    # ── the pyramid ─────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "levels-not-normalised",
        "The budgets of all levels add up to epsilon.",
        PYRAMID,
        "math.floor(weight / math.fsum(weights) * 2**50)",
        "math.floor(weight / math.fsum(weights[1:]) * 2**50)",
        "tests/central/test_central.py::test_golden_budgets",
    ),
    Bug(
        "noise-scaled-by-level",
        "Noise is drawn in counts and not shrunk by the size of a level (errata E0-1).",
        PYRAMID,
        "discrete_laplace(scale, len(nodes), randomness)",
        "discrete_laplace(scale / 2**level, len(nodes), randomness)",
        "tests/central/test_noisy_decisions.py::test_the_noise_that_is_drawn_is_the_noise_that_is_declared[Pyramid]",
    ),
    Bug(
        "heaviest-by-true-counts",
        "The nodes to keep are chosen only by noisy counts.",
        PYRAMID,
        "kept = heaviest(noisy, self.w)",
        "kept = heaviest(counts.at(level, nodes), self.w)",
        "tests/central/test_noisy_decisions.py::test_what_is_kept_is_chosen_by_noisy_counts[Pyramid]",
    ),
    Bug(
        "pyramid-tells-the-true-total",
        "The number of people is private: the total comes from noisy counts (errata E0-3).",
        PYRAMID,
        "total=float(fit.mass.sum(dtype=np.float64)) / counts.one,",
        "total=float(counts.mass.sum()) / counts.one,",
        "tests/central/test_noisy_decisions.py::test_the_total_is_a_noisy_one[Pyramid]",
    ),
    # ── the others ──────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "splits-without-noise",
        "Squares are split by noisy counts.",
        PRIV_TREE,
        "split = biased + discrete_laplace(splits.scale, len(nodes), randomness) > 0",
        "split = biased + discrete_laplace(splits.scale, len(nodes), randomness) * 0 > 0",
        "tests/central/test_priv_tree.py::test_trees_are_grown_by_the_enumerated_law",
    ),
    Bug(
        "splits-without-floor",
        "A biased count is at least the threshold minus one bias, which the privacy loss of a tree assumes.",
        PRIV_TREE,
        "biased = np.maximum(counts.at(level, nodes) - level * splits.bias, -splits.bias)",
        "biased = counts.at(level, nodes) - level * splits.bias",
        "tests/central/test_priv_tree.py::test_trees_are_grown_by_the_enumerated_law",
    ),
    Bug(
        "leaves-counted-with-all-of-epsilon",
        "Leaves are counted with the part of epsilon that remains after the tree was grown.",
        PRIV_TREE,
        "        scale = laplace_scale(counts.bound, self.epsilon * (1 - self.share))\n",
        "        scale = laplace_scale(counts.bound, self.epsilon)\n",
        "tests/central/test_noisy_decisions.py::test_the_noise_that_is_drawn_is_the_noise_that_is_declared[PrivTree]",
    ),
    Bug(
        "logarithm-rounded-down",
        "The bias of a tree is rounded up.",
        PRIV_TREE,
        "LOG_4 = Fraction(1_386_294_362, 10**9)",
        "LOG_4 = Fraction(1_386_294_361, 10**9) / 2",
        "tests/central/test_priv_tree.py::test_the_scale_is_the_papers",
    ),
    Bug(
        "blocks-from-the-true-total",
        "The number of blocks of a map follows from a noisy total (errata E0-3).",
        UNIFORM_GRID,
        "return float(sums[-1, -1] + noise[0]) / bound",
        "return float(sums[-1, -1] + 0 * noise[0]) / bound",
        "tests/central/test_noisy_decisions.py::test_how_many_units_there_are_is_a_noisy_number",
    ),
    Bug(
        "blocks-paid-twice-with-one-budget",
        "Blocks and parts share the budget.",
        ADAPTIVE_GRID,
        "fine = self._noisy(sums, parts, rest * (1 - ALPHA), counts.bound, randomness)",
        "fine = self._noisy(sums, parts, rest, counts.bound, randomness)",
        "tests/central/test_noisy_decisions.py::test_the_noise_that_is_drawn_is_the_noise_that_is_declared[AdaptiveGrid]",
    ),
    Bug(
        "parts-by-true-counts",
        "A block is cut by its noisy count.",
        ADAPTIVE_GRID,
        "wanted = blocks_a_side(coarse / counts.bound, rest * (1 - ALPHA), UNITS_A_PART)",
        "wanted = blocks_a_side(masses(sums, *blocks) / counts.bound, rest * (1 - ALPHA), UNITS_A_PART)",
        "tests/central/test_noisy_decisions.py::test_blocks_are_cut_by_noisy_counts",
    ),
    Bug(
        "empty-cells-stay-empty",
        "Every cell gets noise, also one where nobody is.",
        FLAT,
        "return counts.dense() + discrete_laplace(scale, counts.grid.cells, randomness).reshape(counts.grid.shape)",
        "exact = counts.dense()\n"
        "    noise = discrete_laplace(scale, counts.grid.cells, randomness).reshape(counts.grid.shape)\n"
        "    return np.where(exact > 0, exact + noise, 0)",
        "tests/central/test_noisy_decisions.py::test_empty_cells_get_noise_too[Flat]",
    ),
    Bug(
        "flat-tells-the-true-total",
        "The number of people is private: the total of a flat map comes from noisy cells (errata E0-3).",
        FLAT,
        "total=float(mass.sum()) / counts.one,",
        "total=float(counts.mass.sum()) / counts.one,",
        "tests/central/test_noisy_decisions.py::test_the_total_is_a_noisy_one[Flat]",
    ),
    Bug(
        "top-cells-by-true-counts",
        "The cells to keep are chosen by noisy counts (errata E0-13).",
        FLAT_TOP,
        'kept = np.argsort(-noisy, axis=None, kind="stable")',
        'kept = np.argsort(-counts.dense(), axis=None, kind="stable")',
        "tests/central/test_noisy_decisions.py::test_what_is_kept_is_chosen_by_noisy_counts[FlatTop]",
    ),
    Bug(
        "dawa-priced-for-one-sided-changes",
        "A unit changes the energies of partitions by a range of 4: some rise by 3 while others fall by 1.",
        DAWA,
        "sensitivity = bound * (4 * 2**UNITS + 4 * _height(self.grid.cells))",
        "sensitivity = bound * (1 * 2**UNITS + 4 * _height(self.grid.cells))",
        "tests/central/test_dawa.py::test_no_partition_betrays_a_person_beyond_the_price",
    ),
    Bug(
        "dawa-splits-without-noise",
        "The partition is drawn with exact coins, not taken from the true counts.",
        DAWA,
        "if rate is None or (exponents == _ALWAYS).all():",
        "if True:",
        "tests/central/test_dawa.py::test_partitions_are_drawn_by_the_enumerated_law",
    ),
    Bug(
        "dawa-buckets-paid-with-all-of-epsilon",
        "The buckets are counted with what the partition and the total leave of epsilon.",
        DAWA,
        "scales = [laplace_scale(counts.bound, self.epsilon * share) for share in (TOTAL_SHARE, counted)]",
        "scales = [laplace_scale(counts.bound, self.epsilon * share) for share in (TOTAL_SHARE, Fraction(1))]",
        "tests/central/test_noisy_decisions.py::test_the_noise_that_is_drawn_is_the_noise_that_is_declared[Dawa]",
    ),
    Bug(
        "dense-level-from-the-data",
        "The level of a dense map follows from a public guess, not from the data (errata E0-3).",
        DENSE,
        "        nodes = nodes_at(self.grid, self.level)\n",
        "        object.__setattr__(self, 'people', max(1, int(counts.mass.sum()) // counts.one))\n"
        "        nodes = nodes_at(self.grid, self.level)\n",
        "tests/contract/test_mechanisms.py::test_contract[Dense]",
    ),
)
