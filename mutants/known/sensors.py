"""Known bugs of sensors: the sensitivity of readings, the size of the noise, and noise that is used twice."""

from mutants.bug import Bug

READINGS = "src/heathaze/sensors/readings.py"
NOISY = "src/heathaze/sensors/noisy_readings.py"
PLACES = "src/heathaze/sensors/sensitivity/_discrete.py"
EDGES = "src/heathaze/sensors/sensitivity/_discrete.py"
STEEPEST = "src/heathaze/sensors/sensitivity/_continuous.py"
DEVICE = "src/heathaze/sensors/device.py"
ESCROW = "src/heathaze/sensors/escrow.py"
FILES = "src/heathaze/files.py"

BUGS = (
    # ── sensitivity ─────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "formula-without-n",
        "The sensitivity on a line is per unit of length and not per step of the grid (errata E4-2).",
        PLACES,
        "_longest(responses.T, power)) / gaps",
        "_longest(responses.T, power)) / (gaps / gaps)",
        "tests/sensors/test_sensitivity.py::test_the_factor_n_is_there",
    ),
    Bug(
        "edge-lengths-forgotten",
        "The sensitivity on a network is per unit of edge length (errata E4-2).",
        EDGES,
        "        rates = (moved * (1 + SAFETY) + floor) / network.lengths\n",
        "        rates = moved * (1 + SAFETY) + floor\n",
        "tests/sensors/test_sensitivity.py::test_every_pair_of_candidates",
    ),
    Bug(
        "calibrated-for-each-reading",
        "Noise is calibrated for all readings together, not for each reading by itself (errata E4-3).",
        STEEPEST,
        'return np.asarray(np.sqrt(np.einsum("rk,rk->k", readings, readings)))',
        "return np.asarray(np.abs(readings).max(axis=0))",
        "tests/sensors/test_sensitivity.py::test_lines_of_the_errata",
    ),
    Bug(
        "edges-calibrated-for-each-reading",
        "Noise on a network is calibrated for all readings together, as closed forms for two graphs show.",
        EDGES,
        '        squares += np.einsum("eb,eb->e", steps, steps)\n        sums += np.abs(steps).sum(axis=1)\n',
        "        squares = np.maximum(squares, (steps**2).max(axis=1))\n        sums += np.abs(steps).sum(axis=1)\n",
        "tests/sensors/test_sensitivity.py::test_closed_forms_of_complete_graphs_and_stars",
    ),
    Bug(
        "search-stops-at-the-middle",
        "The largest slope is bounded over whole boxes, not only evaluated at their centres.",
        STEEPEST,
        "    value = max(found, settled)\n",
        "    value = found * 0.99\n",
        "tests/sensors/test_sensitivity.py::test_lines_of_the_errata",
    ),
    Bug(
        "floats-promise-more-than-they-know",
        "A sensitivity is never smaller than its possible rounding error (errata E4-8).",
        EDGES,
        "    for moved, floor in zip((np.sqrt(squares), sums), floors, strict=True):\n",
        "    for moved, floor in zip((np.sqrt(squares), sums), (0.0, 0.0 * floors[0]), strict=True):\n",
        "tests/sensors/test_sensitivity.py::test_floats_do_not_promise_more_than_they_know",
    ),
    Bug(
        "failure-forgotten",
        "The probability that a random search underestimates an edge is part of delta.",
        EDGES,
        "        failure = max(failure, chance)\n",
        "        failure = 0.0 * chance\n",
        "tests/sensors/test_sensitivity.py::test_screening_of_a_matrix_on_a_network",
    ),
    # ── noise ───────────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "rounding-of-readings-for-free",
        "The noise covers the rounding of readings to steps.",
        READINGS,
        "return math.ceil(math.ldexp(self._change, -steps) * (1 + 1e-12) + rounding)",
        "return math.ceil(math.ldexp(self._change, -steps) * (1 + 1e-12) + 0 * rounding)",
        "tests/sensors/test_readings.py::test_rounding_is_in_the_sensitivity_also_that_of_the_floats",
    ),
    Bug(
        "noise-too-small-for-its-price",
        "The noise of readings is raised until it costs no more than epsilon.",
        READINGS,
        "(cost := self._price(counted, scale)) > self.epsilon:",
        "(cost := self._price(counted, scale)) > 2 * self.epsilon:",
        "tests/sensors/test_readings.py::test_noise_that_starts_too_small_is_raised_to_its_price",
    ),
    Bug(
        "l2-noise-for-a-pure-promise",
        "A pure promise is kept by Laplace noise for the l1 sensitivity.",
        READINGS,
        "change = self.sensitivity.l2 if self.delta > 0 else self.sensitivity.l1",
        "change = self.sensitivity.l2",
        "tests/sensors/test_readings.py::test_laplace_noise_keeps_a_pure_promise",
    ),
    Bug(
        "readings-drawn-before-paid",
        "The ledger of readings is charged before any noise is drawn.",
        READINGS,
        "        receipt = pay(self.guarantee(), self.event, ledger=ledger, randomness=randomness)\n"
        "        draw = discrete_gaussian if self.delta > 0 else discrete_laplace\n",
        "        draw = discrete_gaussian if self.delta > 0 else discrete_laplace\n"
        "        draw(scale, exactly.size, Randomness(bytes(32)))\n"
        "        receipt = pay(self.guarantee(), self.event, ledger=ledger, randomness=randomness)\n",
        "tests/sensors/test_readings.py::test_the_ledger_is_charged_before_any_noise_and_refuses_what_is_too_much",
    ),
    Bug(
        "card-made-before-paid",
        "A card for sensors is paid for before it exists.",
        READINGS,
        "        pay(self._guarantee_of(card), self.event, ledger=ledger)\n",
        "        pay(self._guarantee_of(card), self.event)\n",
        "tests/sensors/test_readings.py::test_a_card_is_charged_before_it_exists",
    ),
    Bug(
        "card-for-other-times",
        "A card covers as many times as the field has.",
        READINGS,
        "        if card.times != self.times:\n",
        "        if False:\n",
        "tests/sensors/test_readings.py::test_a_card_for_other_times_is_refused",
    ),
    Bug(
        "card-with-less-noise",
        "A card with less noise than its readings owe is refused.",
        READINGS,
        "        if card.noise != noise or cost > self.epsilon:\n",
        "        if card.noise != noise:\n",
        "tests/sensors/test_readings.py::test_a_card_with_less_noise_than_is_owed_is_refused",
    ),
    Bug(
        "simulated-readings-saved",
        "Readings made with simulated randomness are never saved.",
        NOISY,
        "        if self.simulated:\n",
        "        if False:\n",
        "tests/sensors/test_readings.py::test_simulated_readings_are_never_saved",
    ),
    # ── the sensor ──────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "sensor-zero-counts-twice",
        "The noise of a sensor has its exact distribution: zero is no likelier than it should be.",
        DEVICE,
        "if not (negative and magnitude == 0):",
        "if not (negative and magnitude < 0):",
        "tests/sensors/test_device.py::test_the_noise_follows_its_law",
    ),
    Bug(
        "same-time-answered-twice",
        "A sensor answers each time once.",
        DEVICE,
        "            if time < start.next:\n",
        "            if False:\n",
        "tests/sensors/test_device.py::test_each_time_is_answered_once_and_times_go_up",
    ),
    Bug(
        "answer-before-it-is-remembered",
        "A sensor records on disk that it answers before it returns the answer.",
        DEVICE,
        "            self._remember(start, _State(time + 1, key, start.first))\n"
        "            return exactly + noise(self.card, bits)\n",
        "            answer = exactly + noise(self.card, bits)\n"
        "            self._remember(start, _State(time + 1, key, start.first))\n            return answer\n",
        "tests/sensors/test_device.py::test_what_is_remembered_is_on_the_disk_before_the_answer_exists",
    ),
    Bug(
        "seed-reused-over-time",
        "Noise under escrow differs for each time (errata E4-9).",
        DEVICE,
        "                bits, key = KeyedBits(key), next_key(key)\n",
        "                bits = KeyedBits(key)\n",
        "tests/sensors/test_escrow.py::test_a_stolen_sensor_does_not_betray_its_past",
    ),
    Bug(
        "seed-reused-over-sensors",
        "Noise under escrow differs for each sensor (errata E4-9).",
        ESCROW,
        "json.dumps([card.to_json(), sensor]).encode()",
        "json.dumps([card.to_json()]).encode()",
        "tests/sensors/test_escrow.py::test_no_two_of_cards_sensors_and_times_share_their_noise",
    ),
    Bug(
        "stolen-sensor-betrays-its-past",
        "A stolen sensor does not reveal the noise of earlier answers.",
        DEVICE,
        'return hmac.digest(key, b"next", hashlib.sha256)',
        "return bytes([(key[0] + 1) % 256]) + key[1:]",
        "tests/sensors/test_escrow.py::test_the_key_of_the_next_time_is_a_one_way_function_of_this_one",
    ),
    Bug(
        "a-reading-swallows-the-next",
        "A quotation mark in one reading does not hide the readings that follow it.",
        FILES,
        "    for number, line in enumerate(lines, start=first):\n",
        "    loosely = csv.reader([text + chr(10) for text in lines], skipinitialspace=True)\n"
        "    yield from enumerate((record for record in loosely if record), start=first)\n"
        "    for number, line in enumerate(lines[:0]):\n",
        "tests/ingest/test_readings.py::test_a_quotation_mark_swallows_no_reading",
    ),
    Bug(
        "carriage-return-forges-a-reading",
        "A carriage return inside a field does not begin a reading of another sensor.",
        FILES,
        'open(newline="\\n", encoding="utf-8-sig")',
        'open(newline="", encoding="utf-8-sig")',
        "tests/sensors/test_files.py::test_a_layout_that_is_none_is_told_in_a_sentence",
    ),
)
