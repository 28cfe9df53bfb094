"""Known bugs of surveys by secure sums: who is asked, what a device refuses, and how much noise its share has."""

from mutants.bug import Bug

COHORT = "src/heathaze/distributed/cohort.py"
DEVICE = "src/heathaze/distributed/device.py"
QUESTION = "src/heathaze/distributed/question.py"
MECHANISM = "src/heathaze/distributed/mechanism.py"
SURVEY = "src/heathaze/distributed/survey.py"
SIMULATE = "src/heathaze/distributed/simulate.py"
QUADTREE = "src/heathaze/distributed/adaptive_quadtree.py"
LEDGER = "src/heathaze/privacy/ledger.py"

TEST_DEVICE = "tests/distributed/test_device.py"

BUGS = (
    # ── who is asked ────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "partial-shards",
        "All shards have the same size: a smaller one would have too little noise (errata E3-2).",
        COHORT,
        "        if self.people % self.shards:\n",
        "        if False:\n",
        "tests/distributed/test_cohort.py::test_a_partial_shard_is_refused",
    ),
    Bug(
        "noise-shaped-on-those-invited",
        "Noise is computed for the fewest people that a sum may have, not for the number invited (errata E3-1).",
        COHORT,
        "return share_shape(self.threshold, self.colluders)",
        "return share_shape(self.shard, self.colluders)",
        "tests/distributed/test_cohort.py::test_whoever_is_lost_and_whoever_tells_the_noise_left_has_shape_one",
    ),
    Bug(
        "overlapping-shards",
        "Nobody is in two shards of a round (errata E3-3).",
        SIMULATE,
        '    return np.argsort(source.words(size), kind="stable").astype(np.int64)',
        "    return source.below(size, size).astype(np.int64)",
        "tests/distributed/test_simulate.py::test_shards_are_disjoint",
    ),
    Bug(
        "disjoint-survey-asks-again",
        "A disjoint survey asks nobody twice.",
        SIMULATE,
        "rest = _shuffled(len(population), source) if rest is None else rest[question.cohort.people :]",
        "rest = _shuffled(len(population), source)",
        "tests/distributed/test_simulate.py::test_a_disjoint_survey_asks_nobody_twice",
    ),
    Bug(
        "small-shard-opened",
        "A shard that lost more than was planned is not opened.",
        SIMULATE,
        "opened = delivered >= cohort.threshold",
        "opened = delivered >= 1",
        "tests/distributed/test_simulate.py::test_a_shard_below_its_threshold_is_not_opened_and_the_others_are",
    ),
    Bug(
        "simulated-survey-saved",
        "The result of a simulated survey is never saved.",
        SIMULATE,
        "    survey = replace(survey, simulated=True)\n",
        "",
        "tests/distributed/test_simulate.py::test_what_comes_out_is_marked_simulated",
    ),
    Bug(
        "own-key-runs-a-survey",
        "Only bits from the operating system make a survey that can be saved.",
        SIMULATE,
        "simulated=survey.simulated or source.simulated",
        "simulated=survey.simulated",
        "tests/distributed/test_survey.py::test_a_simulated_survey_is_never_saved",
    ),
    # ── what a person can change, and what it costs ─────────────────────────────────────────────────────────────────
    Bug(
        "touched-entries-forgotten",
        "Noise is made for every entry that a place touches (errata E3-11).",
        QUESTION,
        "return self.mass * part.encoding.touched",
        "return self.mass",
        "tests/distributed/test_encodings.py::test_a_person_weighs_their_mass_in_every_touched_entry",
    ),
    Bug(
        "dearest-part-alone",
        "The privacy losses of all parts of a question are added up.",
        QUESTION,
        "return sum((part.epsilon for part in self.parts), Fraction(0))",
        "return max(part.epsilon for part in self.parts)",
        "tests/distributed/test_question.py::test_parts_lie_one_after_the_other_and_add_up",
    ),
    Bug(
        "colluders-count-as-honest",
        "The privacy loss of a sum counts only the noise of honest devices (errata E3-5).",
        QUESTION,
        "honest = (self.cohort.threshold if delivered is None else delivered) - self.cohort.colluders",
        "honest = self.cohort.threshold if delivered is None else delivered",
        "tests/distributed/test_question.py::test_the_event_is_restated_from_those_who_delivered",
    ),
    Bug(
        "price-of-the-fullest-shard",
        "The privacy loss of a round is that of its smallest shard, which has the least noise.",
        MECHANISM,
        "return self.question.event(min(self.delivered))",
        "return self.question.event(max(self.delivered))",
        "tests/distributed/test_survey.py::test_the_promise_is_restated_from_those_who_delivered",
    ),
    Bug(
        "dearest-round-alone",
        "The privacy losses of rounds that ask the same people are added up (errata E3-10).",
        SURVEY,
        "        if self.mechanism.disjoint and events:\n",
        "        if events:\n",
        "tests/distributed/test_survey.py::test_rounds_add_up_unless_nobody_was_asked_twice",
    ),
    Bug(
        "sum-of-too-few-used",
        "A sum of fewer people than promised is refused.",
        MECHANISM,
        "        if not all(cohort.threshold <= count <= cohort.shard for count in self.delivered):\n",
        "        if False:\n",
        "tests/distributed/test_survey.py::test_a_sum_of_too_few_makes_no_round",
    ),
    Bug(
        "last-round-spends-all-again",
        "All rounds of an adaptive survey together cost at most epsilon.",
        QUADTREE,
        "part = Part(Regions(partition), left if final or self.disjoint else scheduled)",
        "part = Part(Regions(partition), self.epsilon if final or self.disjoint else scheduled)",
        "tests/distributed/test_adaptive_quadtree.py::test_an_unchanged_tree_is_asked_about_once_more_with_the_rest",
    ),
    # ── the device ──────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "person-weighs-too-much",
        "A device sends nothing if its person weighs more than the noise was made for.",
        DEVICE,
        "        if here.sum() > question.sensitivity(part) or (here < 0).any():\n",
        "        if False:\n",
        f"{TEST_DEVICE}::test_rounding_each_place_by_itself_is_caught",
    ),
    Bug(
        "each-place-rounded-by-itself",
        "The mass of a person is split exactly over their places (errata E3-8).",
        "src/heathaze/privacy/noise_shares.py",
        "    return np.diff(rounded).astype(np.int64)",
        "    return np.diff(-(-cumulative // total)).astype(np.int64) + int(rounded[0])",
        f"{TEST_DEVICE}::test_the_mass_is_split_exactly_and_without_bias",
    ),
    Bug(
        "device-adds-no-noise",
        "Every device adds its share of the noise to every part of its vector.",
        DEVICE,
        "vector[start : start + length] += noise_share(scale, question.cohort.shape, length, source)",
        "vector[start : start + length] += 0 * noise_share(scale, question.cohort.shape, length, source)",
        f"{TEST_DEVICE}::test_every_part_has_the_noise_it_pays_for",
    ),
    Bug(
        "answer-drawn-before-paid",
        "A device pays for an answer before it is made.",
        DEVICE,
        "        source = self._pay(question, randomness).randomness\n"
        "        vector = encode(question, codes_of(question.grid, self._places), bool(self._flag), source)\n",
        "        source = SecureRandomness() if randomness is None else randomness\n"
        "        vector = encode(question, codes_of(question.grid, self._places), bool(self._flag), source)\n"
        "        self._pay(question, randomness)\n",
        f"{TEST_DEVICE}::test_an_answer_is_paid_for_before_it_is_made",
    ),
    Bug(
        "device-in-too-small-a-crowd",
        "A device does not answer in a smaller crowd than it wants.",
        DEVICE,
        "        if honest < self._crowd:\n",
        "        if False:\n",
        f"{TEST_DEVICE}::test_a_device_chooses_its_crowd",
    ),
    Bug(
        "round-answered-twice",
        "A device answers each round once.",
        DEVICE,
        "        if question.number == before.number:\n",
        "        if False:\n",
        f"{TEST_DEVICE}::test_a_question_that_may_not_be_answered_costs_nothing",
    ),
    Bug(
        "earlier-round-answered",
        "A device answers no round before the last one it answered.",
        DEVICE,
        "        if question.number < before.number:\n",
        "        if False:\n",
        f"{TEST_DEVICE}::test_a_question_that_may_not_be_answered_costs_nothing",
    ),
    Bug(
        "another-frame-answered",
        "All rounds of a survey have the same grid, mass and flag.",
        DEVICE,
        "        if _frame(question) != before.frame:\n",
        "        if False:\n",
        f"{TEST_DEVICE}::test_a_question_that_may_not_be_answered_costs_nothing",
    ),
    Bug(
        "second-answer-to-a-disjoint-survey",
        "A device answers one round of a survey that promised to ask nobody twice.",
        DEVICE,
        "        if question.disjoint:\n",
        "        if False:\n",
        f"{TEST_DEVICE}::test_a_device_answers_one_round_of_a_disjoint_survey",
    ),
    Bug(
        "answer-after-the-last-round",
        "A device answers no round after the one that was announced as the last.",
        DEVICE,
        "        if before.final:\n",
        "        if False:\n",
        f"{TEST_DEVICE}::test_nothing_is_answered_after_the_last_round",
    ),
    Bug(
        "two-devices-on-one-ledger-answer",
        "Two programs on one ledger never both answer a round.",
        DEVICE,
        "                once=asked.round,\n",
        "",
        f"{TEST_DEVICE}::test_of_two_programs_on_one_ledger_one_answers",
    ),
    Bug(
        "device-overspends",
        "A device refuses what its budget does not cover.",
        DEVICE,
        "                ledger=self._ledger,\n",
        "",
        f"{TEST_DEVICE}::test_a_device_pays_exactly_and_refuses_beyond_its_budget",
    ),
    Bug(
        "answer-dearer-than-declared",
        "A device refuses a question that costs more than it declares.",
        LEDGER,
        "    if cost > guarantee.loss.epsilon:\n",
        "    if cost > 2 * guarantee.loss.epsilon:\n",
        f"{TEST_DEVICE}::test_noise_that_is_too_small_for_its_price_is_refused",
    ),
    Bug(
        "parameters-of-another-question",
        "All devices of a shard answer the same question.",
        QUESTION,
        "        if parameters.purpose != self.fingerprint:\n",
        "        if False:\n",
        f"{TEST_DEVICE}::test_weaker_parameters_are_refused_before_anything_is_paid",
    ),
    Bug(
        "weaker-parameters-accepted",
        "A device refuses a secure sum that keeps less than the question promises.",
        QUESTION,
        "            if found < expected:\n",
        "            if False:\n",
        f"{TEST_DEVICE}::test_weaker_parameters_are_refused_before_anything_is_paid",
    ),
    Bug(
        "even-part-of-colluders",
        "A random shard may hold more than its proportional share of colluders, and the noise is computed for that.",
        COHORT,
        "        return most_in_a_shard(self.people, self.corrupt, self.shards)\n",
        "        return -(-self.corrupt // self.shards)\n",
        "tests/distributed/test_cohort.py::test_random_shards_hold_more_colluders_than_their_even_part",
    ),
    Bug(
        "place-off-the-globe",
        "A place that is not on the globe is refused when a device is made.",
        DEVICE,
        "        if not plane:\n",
        "        if plane is None:\n",
        "tests/distributed/test_device.py::test_a_place_that_is_not_on_the_globe_is_refused",
    ),
)
