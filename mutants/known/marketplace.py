"""Known bugs of the marketplace: all messages to owners have enough noise to protect one record."""

from mutants.bug import Bug

NOISY_SUM = "src/heathaze/marketplace/noisy_sum.py"
HERDING = "src/heathaze/marketplace/herding.py"
PRIVATE_GREEDY = "src/heathaze/marketplace/private_greedy.py"
GREEDY_PARTIES = "src/heathaze/marketplace/private_greedy_parties.py"
MWEM = "src/heathaze/marketplace/mwem.py"
AUCTION = "src/heathaze/marketplace/auction.py"
FEATURES = "src/heathaze/marketplace/features.py"
ROLES = "src/heathaze/marketplace/roles.py"

BUGS = (
    # ── sums of hashes ──────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "long-vector-summed",
        "A vector longer than the noise is made for is refused.",
        NOISY_SUM,
        "            if not (np.linalg.norm(block, axis=1) <= longest).all():\n",
        "            if False:\n",
        "tests/marketplace/test_noisy_sum.py::test_a_vector_that_is_too_long_is_refused_and_nothing_is_drawn",
    ),
    Bug(
        "sum-with-too-little-noise",
        "The noise of a sum of hashes is raised until it costs no more than epsilon.",
        NOISY_SUM,
        "(cost := self._cost(longest, sigma)) > self.epsilon:",
        "(cost := self._cost(longest, sigma)) > 2 * self.epsilon:",
        "tests/marketplace/test_noisy_sum.py::test_noise_that_starts_too_small_is_raised_to_its_price",
    ),
    Bug(
        "replaced-vector-counted-once",
        "A replaced record changes a sum by two vectors (errata E2-5).",
        NOISY_SUM,
        "return Composition((FineGaussian(self.vectors * longest, sigma, self.dimension),) * self.sums)",
        "return Composition((FineGaussian(longest, sigma, self.dimension),) * self.sums)",
        "tests/marketplace/test_private_greedy.py::test_every_broadcast_is_priced_with_a_replaced_hash",
    ),
    Bug(
        "one-broadcast-paid",
        "Every broadcast of the summary is paid for (errata E2-3).",
        NOISY_SUM,
        "self.dimension),) * self.sums)",
        "self.dimension),))",
        "tests/marketplace/test_private_greedy.py::test_every_broadcast_is_priced_with_a_replaced_hash",
    ),
    Bug(
        "summary-replaced-counted-once",
        "One record more at an owner is one replaced member of the summary (errata E2-5).",
        PRIVATE_GREEDY,
        "_REPLACED = 2",
        "_REPLACED = 1",
        "tests/marketplace/test_private_greedy.py::test_every_broadcast_is_priced_with_a_replaced_hash",
    ),
    Bug(
        "count-of-records-for-free",
        "The noise of a profile covers the count of records beside their hashes.",
        HERDING,
        "return NoisySum(self.features.dimension + 1, math.sqrt(2), 1, self.epsilon, self.delta)",
        "return NoisySum(self.features.dimension + 1, 1.0, 1, self.epsilon, self.delta)",
        "tests/marketplace/test_herding.py::test_an_empty_owner_takes_part_like_any_other",
    ),
    Bug(
        "hash-longer-than-one",
        "No hash is longer than 1, for which the noise is made.",
        FEATURES,
        "np.trunc(np.ldexp(np.cos(angles) / math.sqrt(self.frequencies), _HASH_BITS))",
        "np.trunc(np.ldexp(np.cos(angles) / math.sqrt(self.frequencies), _HASH_BITS) * 1.000001)",
        "tests/marketplace/test_features.py::test_every_hash_has_length_one",
    ),
    Bug(
        "hash-depends-on-other-points",
        "The hash of a point depends on nothing but the point.",
        FEATURES,
        "            self._hash(np.rint(block, out=block), out[start : start + _BLOCK])\n",
        "            block -= block.mean(axis=0)\n"
        "            self._hash(np.rint(block, out=block), out[start : start + _BLOCK])\n",
        "tests/marketplace/test_features.py::test_a_hash_and_its_products_do_not_depend_on_other_points",
    ),
    # ── multiplicative weights ──────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "printed-exponential-mechanism",
        "A choice costs epsilon: exp(epsilon psi / 4), not exp(epsilon psi) (errata E2-2).",
        MWEM,
        "return epsilon / (4 * GRID)",
        "return epsilon / GRID",
        "tests/marketplace/test_mwem.py::test_a_choice_costs_its_epsilon_and_the_printed_one_four_times_that",
    ),
    Bug(
        "printed-laplace-noise",
        "A number costs epsilon: Lap(2 / epsilon), not Lap(1 / epsilon) (errata E2-2).",
        MWEM,
        "return Fraction(math.ceil(2 * GRID / epsilon * 2**10), 2**10)",
        "return Fraction(math.ceil(GRID / epsilon * 2**10), 2**10)",
        "tests/marketplace/test_mwem.py::test_a_number_costs_its_epsilon_and_the_printed_one_twice_that",
    ),
    Bug(
        "one-release-a-step",
        "Both the choice and the number of a step are paid for (errata E2-3).",
        MWEM,
        "return Composition((PureSteps(epsilon, steps, True), PureSteps(epsilon, steps, False)))",
        "return Composition((PureSteps(epsilon, steps, True),))",
        "tests/marketplace/test_mwem.py::test_both_releases_of_every_step_are_in_the_event",
    ),
    Bug(
        "number-beyond-the-grid",
        "A hash with a number larger than any can be is refused.",
        MWEM,
        "    if not (np.abs(counted) <= GRID).all():\n",
        "    if False:\n",
        "tests/marketplace/test_mwem.py::test_a_hash_beyond_the_grid_is_refused",
    ),
    Bug(
        "scale-from-the-true-members",
        "The stated number of members of a summary is public, and is not counted in the data (errata E2-4).",
        MWEM,
        "return self._noisy(_counted(vectors, self.features), members or max(1, len(vectors)), randomness)",
        "return self._noisy(_counted(vectors, self.features), max(1, len(vectors)), randomness)",
        "tests/marketplace/test_mwem.py::test_how_many_hashes_there_are_shows_in_their_sum_alone",
    ),
    # ── the auction ─────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "never-not-asked",
        "Not being asked is as private as being asked: every coin can fall both ways (errata E2-6).",
        AUCTION,
        "return min(self.epsilon * (rank - 1) - self.head_start, Fraction(_SMALLEST_ODDS))",
        "return min(2 * self.epsilon * (rank - 1) - self.head_start, Fraction(_SMALLEST_ODDS))",
        "tests/marketplace/test_auction.py::test_one_rank_changes_no_odds_by_more_than_it_should",
    ),
    Bug(
        "coins-of-one-owner-paid",
        "The coins of all other owners in all rounds are paid for.",
        AUCTION,
        "return PureSteps(self.epsilon, (self.owners - 1) * points, True, missed)",
        "return PureSteps(self.epsilon, points, True, missed)",
        "tests/marketplace/test_auction.py::test_the_event_charges_every_coin_of_every_other_owner",
    ),
    Bug(
        "miss-of-the-auction-for-free",
        "The probability that the best bid is missed is part of delta.",
        AUCTION,
        "        missed = max(Fraction(points * math.exp(-float(head_start)) * (1 + 1e-9)), Fraction(1, 10**320))\n",
        "        missed = Fraction(0 * points * int(head_start))\n",
        "tests/marketplace/test_auction.py::test_the_event_charges_every_coin_of_every_other_owner",
    ),
    Bug(
        "auction-for-free",
        "The auction and the broadcasts share the budget of an owner's record.",
        PRIVATE_GREEDY,
        "return Composition(sums if self._coins is None else (*sums, self._coins))",
        "return Composition(sums)",
        "tests/marketplace/test_private_greedy.py::test_an_auction_leaves_less_for_the_broadcasts",
    ),
    Bug(
        "loss-without-a-price-fits",
        "A privacy loss is not promised if the probability of a missed bid exceeds delta.",
        PRIVATE_GREEDY,
        "that δ does not cover the chance of a missed bid\n            return False\n",
        "that δ does not cover the chance of a missed bid\n            return True\n",
        "tests/marketplace/test_private_greedy.py::test_beside_an_auction_no_loss_is_promised_that_cannot_be_priced",
    ),
    # ── private greedy ──────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "points-reconsidered",
        "A point that was bought is not bought again: one record is in the summary once (errata E2-5).",
        GREEDY_PARTIES,
        "        self._left[place] = False\n        return place\n",
        "        return place\n",
        "tests/marketplace/test_private_greedy_parties.py::test_what_is_bought_is_the_best_under_the_broadcast_score",
    ),
    Bug(
        "owner-bids-with-a-sent-point",
        "An owner does not bid again with a point that it sent.",
        GREEDY_PARTIES,
        "            self._similarity[rows] = -np.inf\n",
        "",
        "tests/marketplace/test_private_greedy.py::test_an_owner_sends_each_point_once_the_best_first_and_then_nothing",
    ),
    Bug(
        "exact-summary-decides",
        "The curator scores points with the broadcast summary, not with the exact summary (errata E2-6).",
        GREEDY_PARTIES,
        "        self._cache.rescore(values)\n        message = Broadcast(",
        "        self._cache.rescore(hashes.mean(axis=0))\n        message = Broadcast(",
        "tests/marketplace/test_private_greedy_parties.py::test_what_is_bought_is_the_best_under_the_broadcast_score",
    ),
    Bug(
        "points-of-lost-owners-compete",
        "Points of owners who left are not bought, because one record would then change two points of the summary.",
        GREEDY_PARTIES,
        "competing = [owner for owner in self._called if owner in self._active]",
        "competing = list(self._called)",
        "tests/marketplace/test_swap_lemma.py::test_the_lemma_holds_when_an_owner_vanishes",
    ),
    Bug(
        "points-of-owners-not-called-compete",
        "Points of owners who were not called in a round are not bought in it.",
        GREEDY_PARTIES,
        "competing = [owner for owner in self._called if owner in self._active]",
        "competing = [owner for owner in self._owners if owner in self._active]",
        "tests/marketplace/test_swap_lemma.py::test_one_record_more_is_at_most_one_swap_at_every_time",
    ),
    # ── consumer and owner ──────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "target-told-before-paid",
        "The consumer's ledger is charged before the noisy target is sent.",
        ROLES,
        "            plan = self.plan\n",
        "            plan = self.plan\n"
        "            plan.target_hash(plan.features.of(self._points), self._randomness or SecureRandomness())\n",
        "tests/marketplace/test_herding.py::test_consumer_and_owners_pay_before_anything_is_drawn",
    ),
    Bug(
        "target-told-twice-with-fresh-noise",
        "The noise of the target is drawn once, because fresh noise in each message could be averaged away.",
        ROLES,
        "        if self._wanted is None:\n",
        "        if True:\n",
        "tests/marketplace/test_herding.py::test_noise_is_drawn_once",
    ),
    Bug(
        "profile-told-twice-with-fresh-noise",
        "A profile is drawn once, however often it is asked for.",
        HERDING,
        "        if self._profile is None:\n",
        "        if True:\n",
        "tests/marketplace/test_herding.py::test_noise_is_drawn_once",
    ),
    Bug(
        "owner-does-not-pay",
        "An owner pays before its first answer.",
        ROLES,
        "                self.plan.event_for_owners,\n                ledger=self._ledger,\n",
        "                self.plan.event_for_owners,\n                ledger=None,\n",
        "tests/marketplace/test_herding.py::test_budgets_are_charged_once_each_and_say_what_is_promised",
    ),
    Bug(
        "owner-under-another-plan",
        "An owner answers under the plan it agreed to and no other.",
        ROLES,
        "        if isinstance(message, Broadcast) and message.plan != self.plan.fingerprint:\n",
        "        if False:\n",
        "tests/marketplace/test_attacks.py::test_an_owner_under_another_plan_says_nothing_and_pays_nothing",
    ),
    Bug(
        "folders-read-as-columns-of-rows",
        "Names of folders never replace a column of the rows on offer.",
        "src/heathaze/ingest/tables.py",
        "escape = '\\\"', hive_partitioning = false)",
        "escape = '\\\"')",
        "tests/marketplace/test_neighbour_rows.py::test_names_of_folders_say_nothing_about_rows",
    ),
)
