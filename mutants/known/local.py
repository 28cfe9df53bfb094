"""Known bugs of the local model: weights of reports, their draws, and the device that is charged for them."""

from mutants.bug import Bug

WINDOW = "src/heathaze/local/_window.py"
DISTANCE = "src/heathaze/local/geo_indistinguishability.py"
DISK_AREA = "src/heathaze/local/disk_area.py"
RINGS = "src/heathaze/local/hybrid_uniform_exponential.py"
SUBSETS = "src/heathaze/local/subset_exponential.py"
PLANAR = "src/heathaze/local/planar_laplace.py"
BITS = "src/heathaze/local/unary_encoding.py"
HASHES = "src/heathaze/local/local_hashing.py"
MIXTURE = "src/heathaze/local/mixture.py"
WAVE = "src/heathaze/local/square_wave.py"
MECHANISM = "src/heathaze/local/mechanism.py"
DEVICE = "src/heathaze/local/device.py"
REPORTS = "src/heathaze/local/reports.py"
RANDOMNESS = "src/heathaze/privacy/randomness.py"
TALLY = "src/heathaze/local/tally.py"
DRAWN = "src/heathaze/inference/drawn_maps.py"

BUGS = (
    # ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "unclipped-shares",
        "The share of a cell that the circle cuts lies between 0 and 1 (errata E1-2: epsilon 3.5846 instead of 3.5).",
        DISK_AREA,
        "share = np.clip(4 * (delta * x + 0.5) * (delta * y + 0.5), 0.0, 1.0)",
        "share = 4 * (delta * x + 0.5) * (delta * y + 0.5)",
        "tests/local/test_disk_area.py::test_the_window_of_the_papers_default",
    ),
    Bug(
        "window-weights-unchecked",
        "A window with a weight below its lowest one is refused.",
        WINDOW,
        "if self.low < 1 or (self.excess < 0).any() or (self.excess[~self.support] != 0).any():",
        "if False:",
        "tests/local/test_windows.py::test_a_window_with_bad_weights_is_refused",
    ),
    Bug(
        "window-total-unchecked",
        "A window whose weights do not fit into 62 bits is refused.",
        WINDOW,
        "        if self.total >= LARGEST_TOTAL:\n",
        "        if False:\n",
        "tests/local/test_windows.py::test_a_window_with_bad_weights_is_refused",
    ),
    Bug(
        "decay-total-unchecked",
        "Weights that fall with the distance and do not fit into 62 bits are refused.",
        DISTANCE,
        "    if shift > _FINEST - _COARSEST:\n",
        "    if False:\n",
        "tests/local/test_planar_laplace.py::test_weights_that_do_not_fit_are_refused_where_they_are_made",
    ),
    Bug(
        "rings-without-epsilon",
        "The weights of rings fall from e^epsilon to 1 (errata E1-8).",
        RINGS,
        "floor_exp(low, exponent * Fraction(radius - j + 1, radius))",
        "floor_exp(low, Fraction(radius - j + 1, radius))",
        "tests/local/test_disk_area.py::test_the_rings_of_the_papers_default",
    ),
    Bug(
        "subsets-without-one-half",
        "A set of cells is drawn with half of epsilon, because its normaliser differs from cell to cell (E1-11).",
        SUBSETS,
        "return decay(self.grid, self.epsilon / 2, self.cutoff, margin=False)",
        "return decay(self.grid, self.epsilon, self.cutoff, margin=False)",
        "tests/local/test_subset_exponential.py::test_no_pair_of_cells_pays_more_than_its_distance",
    ),
    Bug(
        "rounding-of-weights-for-free",
        "The privacy loss per metre includes the rounding of weights.",
        DISTANCE,
        "slower, end = _decimal(epsilon - _ROUNDING / smallest_distance(grid)), _decimal(cutoff)",
        "slower, end = _decimal(epsilon), _decimal(cutoff)",
        "tests/local/test_planar_laplace.py::test_the_price_is_kept_in_whole_numbers",
    ),
    Bug(
        "distances-overstated",
        "Distances on the globe are never overstated, so the loss per metre is never understated.",
        DISTANCE,
        "shrunk = float(np.cos(latitudes).min())",
        "shrunk = float(np.cos(latitudes).max())",
        "tests/local/test_planar_laplace.py::test_distances_on_the_globe_are_never_overstated",
    ),
    Bug(
        "metres-called-any-two",
        "A privacy loss per metre is not called local differential privacy (errata E1-12).",
        PLANAR,
        "        return adjacency_by_length(self.grid)\n",
        "        return Adjacency.ANY_TWO\n",
        "tests/local/test_estimate.py::test_a_price_for_each_metre_says_so",
    ),
    Bug(
        "oue-rounding",
        "The probability of a false bit is rounded up.",
        BITS,
        "return -(-(WORDS**2) // (power + WORDS))",
        "return WORDS**2 // (power + WORDS)",
        "tests/local/test_categorical.py::test_the_threshold_is_rounded_against_us",
    ),
    Bug(
        "true-bit-always-set",
        "The bit of the true cell is a fair coin.",
        BITS,
        "bits[true] = words[true] < np.uint64(WORDS // 2)",
        "bits[true] = True",
        "tests/local/test_categorical.py::test_bits_follow_the_matrix",
    ),
    Bug(
        "epsilon-for-each-coordinate",
        "A report of two coordinates spends half of epsilon on each.",
        WAVE,
        'return self.epsilon / 2 if self.split == "budget" else self.epsilon',
        "return self.epsilon",
        "tests/local/test_square_wave.py::test_no_report_betrays_more_than_epsilon",
    ),
    Bug(
        "true-bucket-too-likely",
        "The true bucket weighs at most e^epsilon times another.",
        HASHES,
        "        return low, floor_exp(low, exponent)\n",
        "        return low, 2 * floor_exp(low, exponent)\n",
        "tests/local/test_categorical.py::test_buckets_betray_no_more_than_epsilon",
    ),
    Bug(
        "coin-looks-at-the-cell",
        "The coin of a mixture does not depend on the position.",
        MIXTURE,
        "coin = randomness.below(self.hashing.denominator, len(cells)) < np.uint64(self.hashing.numerator)",
        "coin = (randomness.below(self.hashing.denominator, len(cells)) + cells.astype(np.uint64) % np.uint64(2)) < "
        "np.uint64(self.hashing.numerator)",
        "tests/local/test_mixture.py::test_the_coin_shows_its_share_whatever_the_cell_is",
    ),
    Bug(
        "far-position-is-charged",
        "A position that is probably a mistake is refused before anything is charged.",
        DEVICE,
        "            check_near(self.mechanism.grid, *position.tolist())\n",
        "            pass\n",
        "tests/local/test_device.py::test_a_position_that_is_probably_a_mistake_is_refused",
    ),
    # ── draws ───────────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "true-cell-reported",
        "A report is drawn at random and is not the true cell (errata E1-1).",
        WINDOW,
        'ids[near] = centre + steps[np.searchsorted(cumulative, ticket[near] - everywhere, side="right")]',
        "ids[near] = centre + 0 * (steps[0] + cumulative[0])",
        "tests/local/test_windows.py::test_samples_follow_the_matrix",
    ),
    Bug(
        "first-member-stays-first",
        "The order of a reported set does not reveal which cell was drawn first.",
        SUBSETS,
        "    sets.sort(axis=1)\n    rows = np.arange(len(sets))\n",
        "    rows = np.arange(0)\n",
        "tests/local/test_local_contract.py::test_what_is_drawn_is_what_the_matrix_says",
    ),
    # ── the device ──────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "report-drawn-before-paid",
        "A device pays for a report before it is drawn.",
        DEVICE,
        "        receipt = self._pay(randomness, repeatable=self._has_answer(remembered))\n"
        "        drawn = _draw(self.mechanism, cells, Unit.PERSON, receipt)\n",
        "        drawn = randomize(self.mechanism, position, randomness=randomness)\n"
        "        self._pay(randomness, repeatable=self._has_answer(remembered))\n",
        "tests/local/test_device.py::test_paid_before_anything_is_drawn",
    ),
    Bug(
        "memory-holds-the-true-cell",
        "The memory of a device holds its answer and not its place.",
        DEVICE,
        "{fingerprint(self.mechanism): drawn.values[0].tolist()}",
        "{fingerprint(self.mechanism): cells.tolist()}",
        "tests/local/test_device.py::test_the_memory_never_holds_the_true_cell",
    ),
    Bug(
        "one-name-for-all-campaigns",
        "Names of one device in two campaigns cannot be linked.",
        DEVICE,
        'hashlib.sha256(f"{name} {fingerprint(self.mechanism)}".encode()).digest()',
        'hashlib.sha256(f"{name}".encode()).digest()',
        "tests/local/test_device.py::test_names_of_two_campaigns_cannot_be_linked",
    ),
    Bug(
        "reports-for-the-price-of-one",
        "Several reports of one person cost epsilon each.",
        MECHANISM,
        "return Guarantee(PrivacyLoss(mechanism.epsilon * reports), unit,",
        "return Guarantee(PrivacyLoss(mechanism.epsilon * min(reports, 1)), unit,",
        "tests/local/test_device.py::test_reports_of_one_person_are_promised_together",
    ),
    Bug(
        "simulated-reports-leave",
        "Reports made with simulated randomness never leave.",
        REPORTS,
        "        if self.simulated:\n",
        "        if False:\n",
        "tests/local/test_reports.py::test_simulated_reports_do_not_leave",
    ),
    Bug(
        "own-key-makes-reports",
        "Only bits from the operating system make reports that can be sent.",
        RANDOMNESS,
        "        return type(self) is not SecureRandomness\n",
        "        return type(self) is Simulation\n",
        "tests/local/test_device.py::test_only_the_secure_source_is_not_simulated",
    ),
    Bug(
        "simulated-tally-saved",
        "A tally with simulated reports in it is never saved.",
        TALLY,
        "simulated = any(tally.simulated for tally in tallies)",
        "simulated = all(tally.simulated for tally in tallies)",
        "tests/local/test_tally.py::test_what_is_simulated_stays_so",
    ),
    Bug(
        "simulated-tally-written",
        "A tally of simulated reports is not written to a file.",
        TALLY,
        "        if self.simulated:\n",
        "        if False:\n",
        "tests/local/test_tally.py::test_what_is_simulated_stays_so",
    ),
    Bug(
        "a-device-counts-twice",
        "A device that reports twice to one question is refused.",
        TALLY,
        "        if devices is None:\n",
        "        if devices is None:\n            devices = _union([tally.devices for tally in tallies])\n"
        "        if devices is None:\n",
        "tests/local/test_tally.py::test_a_device_counts_once",
    ),
    # ── intervals ───────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "empty-places-too-sure",
        "Where drawn maps have nobody, an interval still reaches up to a few people.",
        DRAWN,
        "high = np.where(rest, high, np.maximum(high, -math.log1p(-confidence)))",
        "",
        "tests/inference/test_drawn_maps.py::test_a_few_people_may_be_where_the_maps_have_nobody",
    ),
)
