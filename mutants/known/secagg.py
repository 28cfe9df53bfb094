"""The secure sum: masks, shares of their keys, and what a client refuses to open."""

from mutants.bug import Bug

CLIENT = "src/heathaze/secagg/client.py"
SERVER = "src/heathaze/secagg/server.py"
SHARES = "src/heathaze/secagg/shares.py"
KEYS = "src/heathaze/secagg/keys.py"
TERMS = "src/heathaze/secagg/terms.py"
ODDS = "src/heathaze/secagg/odds.py"
ENVELOPE = "src/heathaze/secagg/envelope.py"

BUGS = (
    # ── keys, shares and masks ──────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "shamir-degree-one-too-small",
        "One share less than needed says nothing about a secret.",
        SHARES,
        "return evaluate([secret, *uniform(needed - 1, randomness)], count)",
        "return evaluate([secret, *uniform(needed - 2, randomness)], count)",
        "tests/secagg/test_shares.py::test_any_so_many_shares_give_the_secret_back",
    ),
    Bug(
        "field-elements-not-even",
        "The coefficients of a share are uniform in the field.",
        SHARES,
        "_BITS = 257\n",
        "_BITS = 255\n",
        "tests/secagg/test_shares.py::test_elements_are_uniform",
    ),
    Bug(
        "no-self-mask",
        "A vector is under its own mask: one that comes too late stays hidden.",
        CLIENT,
        "        masks.add(total, keys.self_stream_key(self._seed, terms.digest, self.index))\n",
        "",
        "tests/secagg/test_privacy.py::test_a_vector_that_comes_too_late_stays_hidden",
    ),
    Bug(
        "self-mask-not-bound-to-the-round",
        "A mask belongs to one client of one round.",
        KEYS,
        'return _derive(seed, b"heathaze secagg 1 self mask" + _WAY.pack(digest, index, index), KEY_BYTES)',
        'return _derive(seed, b"heathaze secagg 1 self mask", KEY_BYTES)',
        "tests/secagg/test_masks.py::test_a_self_mask_belongs_to_one_client_of_one_round",
    ),
    Bug(
        "pair-mask-not-bound-to-the-pair",
        "A mask belongs to one pair of one round.",
        KEYS,
        'return _derive(shared, b"heathaze secagg 1 pair mask" + context, KEY_BYTES)',
        'return _derive(shared, b"heathaze secagg 1 pair mask" + context[:0], KEY_BYTES)',
        "tests/secagg/test_masks.py::test_a_mask_belongs_to_one_pair_of_one_round",
    ),
    Bug(
        "pair-keys-without-identities",
        "Nobody but the owner of an identity can derive the keys of a pair.",
        KEYS,
        'return _derive(identities + masks, b"heathaze secagg 1 pair keys" + context, 4 * KEY_BYTES)',
        'return _derive(masks, b"heathaze secagg 1 pair keys" + context, 4 * KEY_BYTES)',
        "tests/secagg/test_adversary.py::test_a_server_in_the_middle_cannot_read_what_is_sealed",
    ),
    Bug(
        "one-key-for-both-directions",
        "What a client sealed cannot be sent back to it.",
        KEYS,
        "            parts = [parts[1], parts[0], parts[3], parts[2]]\n",
        "            parts = [parts[0], parts[1], parts[2], parts[3]]\n",
        "tests/secagg/test_masks.py::test_neighbours_seal_and_vouch_for_each_other_alone",
    ),
    Bug(
        "signature-not-checked",
        "A message that its sender did not sign is refused.",
        ENVELOPE,
        "    if not verifies(directory[sender], block[-SIGNATURE_BYTES:], signed):\n",
        "    if False:\n",
        "tests/secagg/test_schedules.py::test_every_single_bit_of_an_envelope_matters",
    ),
    Bug(
        "other-terms-go-through",
        "A message under other terms is refused.",
        ENVELOPE,
        "    if digest != terms.digest:\n",
        "    if False:\n",
        "tests/secagg/test_secrets.py::test_other_terms_for_another_client_do_not_go_through",
    ),
    # ── what a client refuses ───────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "unsafe-terms-accepted",
        "A client refuses terms under which the server learns more than the sum.",
        TERMS,
        "        if self.odds.breach > breach:\n",
        "        if False:\n",
        "tests/secagg/test_terms.py::test_unsafe_terms_are_refused",
    ),
    Bug(
        "too-few-survivors-accepted",
        "A client does not open a sum of fewer people than promised.",
        CLIENT,
        "        if len(members) < terms.survivors_at_least:\n",
        "        if False:\n",
        "tests/secagg/test_adversary.py::test_survivors_that_a_client_does_not_accept",
    ),
    Bug(
        "two-stories-about-survivors",
        "A client reveals nothing if a neighbour was told other survivors.",
        CLIENT,
        "            if not self._pairs[other].vouched(tag, self._told):\n",
        "            if False:\n",
        "tests/secagg/test_adversary.py::test_two_halves_told_two_stories_open_nothing",
    ),
    Bug(
        "few-neighbours-agree",
        "A client reveals nothing unless enough neighbours were told the same.",
        CLIENT,
        '        if len(found) < self.terms.shares_needed:\n            self._stop(f"{len(found)} neighbours agree',
        '        if not found:\n            self._stop(f"{len(found)} neighbours agree',
        "tests/secagg/test_adversary.py::test_agreements_that_a_client_does_not_accept",
    ),
    Bug(
        "both-kinds-of-share",
        "A client reveals the seed of a survivor or the key of a lost one, and never both.",
        CLIENT,
        "mask_keys=tuple((other, pair[1]) for other, pair in held if other not in self._survivors),",
        "mask_keys=tuple((other, pair[1]) for other, pair in held),",
        "tests/secagg/test_adversary.py::test_never_both_kinds",
    ),
    Bug(
        "second-message-answered",
        "A client that is told two different things stops for good.",
        CLIENT,
        "            if fingerprint != opened.fingerprint:\n",
        "            if False:\n",
        "tests/secagg/test_adversary.py::test_two_different_messages_of_one_kind",
    ),
    Bug(
        "few-neighbours-accepted",
        "A client takes no fewer neighbours than planned.",
        CLIENT,
        "        if not least <= len(found) <= terms.neighbours:\n",
        "        if not found:\n",
        "tests/secagg/test_adversary.py::test_neighbours_that_a_client_does_not_accept",
    ),
    Bug(
        "secrets-kept-after-the-round",
        "A client that is done has forgotten its secrets.",
        CLIENT,
        "        if self.finished:\n            self._forget()\n",
        "",
        "tests/secagg/test_secrets.py::test_a_finished_client_has_forgotten",
    ),
    # ── the server and the plan ─────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "shard-of-too-few-summed",
        "A server gives up a shard in which too few are left.",
        SERVER,
        "        if found < self.terms.survivors_at_least:\n",
        "        if found < 1:\n",
        "tests/secagg/test_sums.py::test_too_few_are_left",
    ),
    Bug(
        "wrong-seed-believed",
        "A seed that does not fit its commitment makes no sum.",
        SERVER,
        "            if keys.commitment(seed, self.terms.digest, one) != self._shares[one].commitment:\n",
        "            if False:\n",
        "tests/secagg/test_adversary.py::test_a_wrong_share_is_no_wrong_sum",
    ),
    Bug(
        "half-of-the-neighbours-open-a-mask",
        "More than half of the neighbours are needed to open a mask.",
        TERMS,
        "more_than_half = self.neighbours // 2 + 1",
        "more_than_half = self.neighbours // 2",
        "tests/secagg/test_terms.py::test_terms_that_cannot_be",
    ),
    Bug(
        "odds-of-one-client",
        "The odds of a captured neighbourhood are those of any client, not of one.",
        ODDS,
        "return min(1.0, clients * at_least(corrupt, others, draws, wanted))",
        "return min(1.0, at_least(corrupt, others, draws, wanted))",
        "tests/secagg/test_terms.py::test_the_bound_on_captured_clients_holds_for_all_places_of_the_corrupt",
    ),
    Bug(
        "odds-rounded-down",
        "Odds are rounded up.",
        ODDS,
        "return math.nextafter(numerator / denominator, math.inf)",
        "return math.nextafter(numerator / denominator, -math.inf)",
        "tests/secagg/test_terms.py::test_tails_are_the_hypergeometric_ones",
    ),
    Bug(
        "purpose-not-in-the-digest",
        "Every term is part of the digest that binds messages.",
        TERMS,
        "return hashlib.sha256(_LABEL + self.to_bytes()).digest()",
        "return hashlib.sha256(_LABEL + self.to_bytes()[:-PURPOSE_BYTES]).digest()",
        "tests/secagg/test_terms.py::test_every_term_is_in_the_digest",
    ),
)
