"""Known bugs of the shuffle model: accounting of decoys and reports, devices, shuffler, server."""

from mutants.bug import Bug

SHUFFLING = "src/heathaze/privacy/shuffling.py"
LOSS = "src/heathaze/privacy/decoy_loss.py"
DECOYS = "src/heathaze/shuffle/decoys.py"
DEVICE = "src/heathaze/shuffle/device.py"
SHUFFLER = "src/heathaze/shuffle/shuffler.py"
SERVER = "src/heathaze/shuffle/server.py"
MIXED = "src/heathaze/shuffle/mixed.py"
PARTIES = "tests/shuffle/test_parties.py::"

BUGS = (
    # ── accounting ──────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "decoy-loss-rounded-down",
        "The privacy loss of decoys is rounded up.",
        LOSS,
        "np.ceil(np.log(a[b > 0] / b[b > 0]) / _STEP)",
        "np.floor(np.log(a[b > 0] / b[b > 0]) / _STEP)",
        "tests/privacy/test_decoy_loss.py::test_delta_is_never_below_the_exact_value",
    ),
    Bug(
        "no-decoy-at-the-other-node-forgotten",
        "Counts that are possible before a move only are a part of delta.",
        LOSS,
        " + float(law[b == 0].sum()))",
        ")",
        "tests/privacy/test_decoy_loss.py::test_delta_is_never_below_the_exact_value",
    ),
    Bug(
        "decoys-at-one-node-only",
        "A decoy falls on one of two given nodes with probability 2/K.",
        LOSS,
        "_binomial(level.people * int(each), 2 / level.nodes)",
        "_binomial(level.people * int(each), 2 / (level.nodes - 1))",
        "tests/privacy/test_decoy_loss.py::test_delta_is_never_below_the_exact_value",
    ),
    Bug(
        "blanket-lattice-rounded-down",
        "The lattice keeps the mean of L, so that it bounds delta from above.",
        SHUFFLING,
        "    part = values / step - at\n",
        "    part = 0 * values\n",
        "tests/privacy/test_shuffling.py::test_the_transform_agrees_with_a_sum_of_binomials",
    ),
    Bug(
        "blanket-pairs-large-with-large",
        "The worst pair of positions is accounted: the largest weight at one comes with the smallest at the other.",
        SHUFFLING,
        "b = second[0][::-1][np.minimum(np.searchsorted(np.cumsum(second[1][::-1]), middles)",
        "b = second[0][np.minimum(np.searchsorted(np.cumsum(second[1]), middles)",
        "tests/privacy/test_shuffling.py::test_the_numeric_bounds_are_those_of_the_reference",
    ),
    # ── devices ─────────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "decoys-avoid-the-true-node",
        "Decoys are uniform over all nodes and do not depend on the place.",
        DECOYS,
        "drawn = randomness.below(len(nodes), len(of_whom)).astype(np.int64)",
        "drawn = (own[of_whom] + 1 + randomness.below(len(nodes) - 1, len(of_whom)).astype(np.int64)) % len(nodes)",
        "tests/shuffle/test_decoys.py::test_decoys_are_uniform_and_do_not_depend_on_the_place",
    ),
    Bug(
        "true-message-first",
        "Messages leave a device in random order.",
        DEVICE,
        "for row in messages[order].tolist()",
        "for row in messages.tolist()",
        PARTIES + "test_the_true_node_is_not_always_first",
    ),
    Bug(
        "study-not-bound",
        "A message of another study does not open.",
        SERVER,
        "if batch.study != study.digest:",
        "if False:",
        PARTIES + "test_bad_batches_are_refused_by_name",
    ),
    Bug(
        "second-study-unpaid",
        "Every submission is paid from the person's ledger.",
        DEVICE,
        "ledger=self.ledger, randomness=randomness",
        "ledger=None, randomness=randomness",
        PARTIES + "test_every_study_is_paid_and_none_twice",
    ),
    # ── shuffler and server ─────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "order-of-arrival-kept",
        "A batch says nothing of the order in which messages came.",
        SHUFFLER,
        "sealed = sorted(message for messages",
        "sealed = list(message for messages",
        PARTIES + "test_a_batch_says_nothing_of_order_and_senders",
    ),
    Bug(
        "small-batch-mixed",
        "A batch has at least as many people as the promise needs.",
        SHUFFLER,
        "if len(self) < self.study.least_people:",
        "if len(self) < 1:",
        PARTIES + "test_a_small_batch_waits",
    ),
    Bug(
        "repeats-in-later-batches",
        "A person takes part once, also in later batches.",
        SHUFFLER,
        "in self._waiting or submission.name in self._mixed:",
        "in self._waiting:",
        PARTIES + "test_repeats_and_copies_are_refused_also_in_later_batches",
    ),
    Bug(
        "sizes-unchecked",
        "All messages have the same size.",
        SHUFFLER,
        "if len(message) != study.sealed_bytes:",
        "if False:",
        PARTIES + "test_a_person_is_accepted_whole_or_not_at_all",
    ),
    Bug(
        "colluders-counted-as-people",
        "People who may reveal their messages to the server hide nobody.",
        SERVER,
        "check_batch(mechanism, batch.people - study.colluders)",
        "check_batch(mechanism, batch.people)",
        PARTIES + "test_colluders_do_not_count_as_people",
    ),
    Bug(
        "mixed-messages-of-few",
        "Messages of fewer people than the promise needs are not decoded.",
        MIXED,
        "        check_batch(self.mechanism, self.people)\n",
        "",
        "tests/shuffle/test_decoys.py::test_a_small_batch_is_refused_and_nothing_is_decoded",
    ),
)
