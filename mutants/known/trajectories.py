"""Known bugs of trajectories: how journeys are read and counted, and what the measurements cost."""

from mutants.bug import Bug

FACTS = "src/heathaze/trajectories/facts.py"
TREES = "src/heathaze/trajectories/journey_trees.py"
READ = "src/heathaze/ingest/journeys.py"
LOCAL = "src/heathaze/trajectories/local_journeys.py"
DEVICE = "src/heathaze/trajectories/device.py"
TESTS = "tests/trajectories/test_journey_trees.py::"
LDP_TRACE = "src/heathaze/trajectories/ldp_trace.py"
PIVOT_TRACE = "src/heathaze/trajectories/pivot_trace.py"
CELLS = "src/heathaze/trajectories/cell_journeys.py"
TRACES = "tests/trajectories/test_local_traces.py::"
LOCAL_TESTS = "tests/trajectories/test_local_journeys.py::"
REPORT_TESTS = "tests/trajectories/test_journey_reports.py::"
NEIGHBOURS = TESTS + "test_one_person_adds_at_most_the_mass_to_each_table"

BUGS = (
    Bug(
        "reports-in-the-order-of-people",
        "The order of the reports about journeys does not say whose they are.",
        DEVICE,
        "JourneyReports(mechanism, reports[order], unit",
        "JourneyReports(mechanism, reports, unit",
        REPORT_TESTS + "test_reports_are_not_in_the_order_of_the_people",
    ),
    Bug(
        "cells-beyond-the-border",
        "A journey outside the map visits cells of the map, so its report is as random as any other.",
        "src/heathaze/domain/lines.py",
        "np.floor(down[start] * (1 - part) + down[end] * part).astype(np.int64), shape[0] - 1)",
        "np.floor(down[start] * (1 - part) + down[end] * part).astype(np.int64), shape[0])",
        "tests/trajectories/test_local_traces.py::test_journeys_along_and_beyond_the_borders_are_reported_like_others",
    ),
    Bug(
        "a-cell-that-does-not-exist-is-reported",
        "A mechanism refuses a true cell that it cannot hide among others.",
        "src/heathaze/local/_window.py",
        "if cells.size and (cells.min() < 0 or cells.max() >= number):",
        "if cells.size and cells.min() < 0:",
        "tests/trajectories/test_local_traces.py::test_a_cell_that_does_not_exist_is_never_randomised",
    ),
    Bug(
        "unit-per-trip-while-claiming-person",
        "A person's mass is divided over all of their journeys.",
        FACTS,
        "mass = (MASS // np.bincount(owner))[owner]",
        "mass = np.full(len(owner), MASS)",
        NEIGHBOURS,
    ),
    Bug(
        "lengths-from-the-data",
        "The classes of length do not depend on the journeys.",
        FACTS,
        "frame.length_borders)",
        "frame.length_borders * (lines.lengths(squares).max() / frame.length_borders[-1]))",
        NEIGHBOURS,
    ),
    Bug(
        "visits-not-divided",
        "A journey's mass is divided over its visits.",
        FACTS,
        "mass[journey] * times // visits[journey]",
        "mass[journey] * times",
        NEIGHBOURS,
    ),
    Bug(
        "support-of-the-truth",
        "The model does not know in which squares nobody was.",
        TREES,
        "            visits=where,",
        "            visits=where * (facts.visits.dense() > 0),",
        TESTS + "test_a_model_never_knows_where_nobody_was",
    ),
    Bug(
        "shares-above-one",
        "The shares of the measurements add up to epsilon.",
        TREES,
        "Fraction(50, 100)",
        "Fraction(60, 100)",
        TESTS + "test_the_measurements_cost_epsilon_together",
    ),
    Bug(
        "hours-cost-nothing",
        "The hours cost a share of epsilon like every other table.",
        TREES,
        "Fraction(48, 100), Fraction(22, 100), Fraction(4, 100))",
        "Fraction(50, 100), Fraction(24, 100), Fraction(4, 100))",
        TESTS + "test_the_measurements_cost_epsilon_together",
    ),
    Bug(
        "hours-since-the-first-journey",
        "The hour of a journey does not depend on the times of others.",
        FACTS,
        "np.mod(begins, DAY)",
        "np.mod(begins - begins.min(), DAY)",
        "tests/ingest/test_journeys.py::test_strange_journeys_follow_a_rule_and_have_no_more_influence_than_others",
    ),
    Bug(
        "trips-counted-as-people",
        "With the person as unit, all journeys of a person have one owner.",
        READ,
        "if kind is Unit.PERSON:",
        "if kind is None:",
        "tests/ingest/test_journeys.py::test_two_people_may_use_one_trip_id_and_a_trip_may_be_its_own_unit",
    ),
    Bug(
        "each-move-with-all-of-epsilon",
        "The messages of one journey cost epsilon together.",
        LDP_TRACE,
        "each = self.epsilon / (3 + self.moves)",
        "each = self.epsilon / 4",
        TRACES + "test_the_messages_cost_epsilon_together",
    ),
    Bug(
        "one-message-for-each-move",
        "The number of messages does not depend on the journey.",
        LDP_TRACE,
        "for _ in range(self.moves):",
        "for _ in range(min(self.moves, int(visits.counts.max()) - 1)):",
        TRACES + "test_the_size_of_a_report_does_not_depend_on_the_journey",
    ),
    Bug(
        "no-move-is-not-encoded",
        "A journey of one visit sends the same messages as any other.",
        LDP_TRACE,
        "number = np.full(cells * cells, len(moves), np.int64)",
        "number = np.full(cells * cells, 0, np.int64)",
        TRACES + "test_messages_are_independent_and_follow_the_enumerated_laws",
    ),
    Bug(
        "first-move-always-sampled",
        "A move is sampled from the whole journey.",
        LDP_TRACE,
        "np.where(has_moves, step.astype(np.int64), 0)",
        "np.where(has_moves, 0, 0)",
        TRACES + "test_ldp_trace_recovers_the_model_without_noise",
    ),
    Bug(
        "longest-length-from-the-data",
        "The classes of length do not depend on the journeys.",
        CELLS,
        "return np.searchsorted(most_visits(longest), np.minimum(self.counts, longest))",
        "return np.searchsorted(np.unique(self.counts), self.counts) % len(most_visits(longest))",
        TRACES + "test_a_report_depends_on_its_own_journey_only",
    ),
    Bug(
        "pivot-as-steep-as-two-factors",
        "A moved pivot costs at most its epsilon, with the sums of its weights.",
        PIVOT_TRACE,
        "most <= floor_exp(least, epsilon) for least, most in pairs",
        "most <= floor_exp(least, 2 * epsilon) for least, most in pairs",
        TRACES + "test_a_moved_cell_costs_at_most_epsilon_in_whole_numbers",
    ),
    Bug(
        "pivot-weights-not-normalised",
        "The weights of every true cell have the same sum.",
        PIVOT_TRACE,
        "weights.diagonal() + TOTAL - weights.sum(axis=1)",
        "weights.diagonal()",
        TRACES + "test_a_moved_cell_costs_at_most_epsilon_in_whole_numbers",
    ),
    Bug(
        "directions-are-free",
        "All directions share their part of epsilon.",
        PIVOT_TRACE,
        "self.epsilon * DIRECTIONS / (2 * self._gaps)",
        "self.epsilon * DIRECTIONS / self._gaps",
        TRACES + "test_the_worst_loss_of_a_whole_journey_is_epsilon",
    ),
    Bug(
        "length-is-published",
        "The number of visits is randomised.",
        PIVOT_TRACE,
        "self.length.draw(facts[-1], randomness)]",
        "np.packbits(np.eye(8, dtype=np.uint8)[facts[-1]], axis=1)]",
        TRACES + "test_messages_are_independent_and_follow_the_enumerated_laws",
    ),
    Bug(
        "one-coin-for-all-pivots",
        "Every message is drawn with its own random bits.",
        PIVOT_TRACE,
        "pivots = [self.pivot.draw(fact, randomness) for fact in facts[: self.pivots]]",
        "pivots = [self.pivot.draw(facts[0], randomness)] * self.pivots",
        TRACES + "test_messages_are_independent_and_follow_the_enumerated_laws",
    ),
    Bug(
        "cells-outside-accepted",
        "A report that names a cell outside of the map is refused.",
        PIVOT_TRACE,
        "        check_below(pivots, self.cells.cells)\n",
        "        pivots = pivots % self.cells.cells\n",
        TRACES + "test_bad_reports_are_refused",
    ),
    Bug(
        "coin-knows-the-journey",
        "Which fact is reported does not depend on the journey.",
        LOCAL,
        'ticket, "right")\n',
        'ticket * (lines.counts > 1), "right")\n',
        LOCAL_TESTS + "test_reports_follow_the_enumerated_law",
    ),
    Bug(
        "journey-answer-costs-twice",
        "Each answer is randomised with epsilon.",
        LOCAL,
        "made.append(better(classes, self.epsilon))",
        "made.append(better(classes, 2 * self.epsilon))",
        LOCAL_TESTS + "test_the_worst_loss_of_a_whole_report_is_epsilon",
    ),
    Bug(
        "visit-not-randomised",
        "A visited place is randomised like the other facts.",
        LOCAL,
        "            reports[asked] = self._offsets[number] + answer",
        "            if question.fact == 'visit' and answer.shape[1] == 1:\n"
        "                answer = self.answers(question, lines.take(asked), randomness)[:, None]\n"
        "            reports[asked] = self._offsets[number] + answer",
        LOCAL_TESTS + "test_reports_follow_the_enumerated_law",
    ),
    Bug(
        "hash-seed-of-the-journey",
        "A hashed answer supports the true class no more often than e^epsilon times another.",
        LOCAL,
        "answer = answer[:, :1] * randomizer.buckets + answer[:, 1:]",
        "answer = answer[:, :1] * randomizer.buckets + randomizer._hash(\n"
        "                    answer[:, 0].astype(np.uint64), self.answers(question, lines.take(asked), randomness)"
        ".astype(np.uint64)\n                ).astype(np.int64)[:, None]",
        LOCAL_TESTS + "test_hashed_answers_support_the_truth_as_often_as_they_should",
    ),
    Bug(
        "a-report-for-each-journey-of-a-person",
        "A person sends one report, however many journeys they have.",
        DEVICE,
        "drawn = journeys if unit is Unit.TRIP else",
        "drawn = journeys if unit else",
        LOCAL_TESTS + "test_number_and_size_of_reports_do_not_depend_on_the_journeys",
    ),
    Bug(
        "first-journey-of-a-person",
        "Each journey of a person is drawn equally often.",
        DEVICE,
        "order[first + place]",
        "order[first + place * 0]",
        LOCAL_TESTS + "test_one_journey_of_each_person_is_drawn",
    ),
    Bug(
        "journey-report-without-payment",
        "A device charges its ledger for a report.",
        DEVICE,
        "mechanism.event, ledger=ledger, randomness=randomness)",
        "mechanism.event, ledger=None, randomness=randomness)",
        LOCAL_TESTS + "test_a_device_pays_before_it_reports",
    ),
    Bug(
        "journey-reports-mixed",
        "Reports of two parameter sets are not mixed.",
        "src/heathaze/local/reports.py",
        "if mine is not theirs and fingerprint(mine) != fingerprint(theirs):",
        "if False:",
        REPORT_TESTS + "test_a_set_counts_once_and_other_parameters_are_refused_by_name",
    ),
    Bug(
        "journey-reports-out-of-range",
        "A report that the mechanism never makes is refused.",
        "src/heathaze/trajectories/reports.py",
        "        self.mechanism.check(self.values)\n",
        "",
        REPORT_TESTS + "test_bad_reports_are_refused",
    ),
)
