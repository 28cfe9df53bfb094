"""Known bugs of random bits, exact noise, noise shares, integer weights and exact selection."""

from mutants.bug import Bug

SAMPLERS = "src/heathaze/privacy/_samplers.py"
NOISE = "src/heathaze/privacy/noise.py"
SHARES = "src/heathaze/privacy/noise_shares.py"
RANDOMNESS = "src/heathaze/privacy/randomness.py"
WEIGHTS = "src/heathaze/local/weights.py"
SELECTION = "src/heathaze/privacy/selection.py"

BUGS = (
    # ── random bits ─────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "noise-restarted",
        "A stream of random words moves on: no word is given out twice.",
        RANDOMNESS,
        "        self.fill(block)\n        return block",
        "        Randomness(bytes(32)).fill(block)\n        return block",
        "tests/privacy/test_randomness.py::test_the_stream_moves_on",
    ),
    Bug(
        "no-rekey-after-fork",
        "A forked process draws other noise than its parent.",
        RANDOMNESS,
        "after_in_child=_rekey_after_fork",
        "after_in_child=lambda: None",
        "tests/privacy/test_randomness.py::test_a_forked_child_draws_other_noise",
    ),
    Bug(
        "one-key-for-all",
        "Every source of random bits has a new key from the operating system.",
        RANDOMNESS,
        "super().__init__(os.urandom(32))",
        "super().__init__(bytes(32))",
        "tests/privacy/test_randomness.py::test_secure_sources_differ",
    ),
    Bug(
        "randomness-copied",
        "A source of random bits cannot be copied: the copy would repeat the same noise.",
        RANDOMNESS,
        "class Randomness(Secret):\n",
        "class Randomness:\n",
        "tests/privacy/test_randomness.py::test_no_copies",
    ),
    Bug(
        "modulo-bias",
        "Uniform integers below a bound are exactly uniform.",
        RANDOMNESS,
        "limit = np.uint64(2**64 - 1 - 2**64 % bound)",
        "limit = np.uint64(2**64 - 1)",
        "tests/privacy/test_randomness.py::test_words_beyond_the_last_whole_multiple_are_drawn_again",
    ),
    # ── discrete Laplace and discrete Gaussian ──────────────────────────────────────────────────────────────────────
    Bug(
        "zero-counts-twice",
        "Discrete Laplace noise has its exact distribution: zero is no likelier than it should be.",
        SAMPLERS,
        "if negative and magnitude == 0:",
        "if negative and magnitude < 0:",
        "tests/privacy/test_noise.py::test_laplace_noise_follows_its_law",
    ),
    Bug(
        "uniform-without-rejection",
        "Uniform integers inside the compiled samplers are exactly uniform.",
        SAMPLERS,
        "if low >= bound or low >= (_0 - bound) % bound:",
        "if low >= _0:",
        "tests/privacy/test_noise.py::test_uniform_integers_keep_as_many_words_for_each_value",
    ),
    Bug(
        "coin-of-exp-minus-one-off-by-one",
        "The coin of probability exp(-1) is exact, to one ticket in 16 factorial.",
        SAMPLERS,
        "return drawn <= _ODD, at",
        "return drawn < _ODD, at",
        "tests/privacy/test_noise.py::test_the_last_value_that_means_yes_and_the_first_that_means_no",
    ),
    Bug(
        "gaussian-accepts-too-much",
        "Discrete Gaussian noise has its exact distribution.",
        SAMPLERS,
        "distance * distance, _2 * p * p)",
        "distance * distance, np.uint64(3) * p * p)",
        "tests/privacy/test_noise.py::test_gaussian_noise_follows_its_law",
    ),
    Bug(
        "float-noise",
        "Noise is drawn in integers from the exact distribution, and never by rounding a float.",
        NOISE,
        "    return draw(fill_laplace, size, randomness, np.uint64(ratio.numerator), np.uint64(ratio.denominator))",
        "    rate, _ = np.random.default_rng(int(randomness.words(1)[0])), fill_laplace\n"
        "    return np.rint(rate.laplace(0.0, float(ratio), size)).astype(np.int64)",
        "tests/privacy/test_noise.py::test_laplace_noise_follows_its_law",
    ),
    Bug(
        "cut-draw-starts-over",
        "A draw that runs out of words goes on with the same words: short draws are not favoured.",
        NOISE,
        "            words[:left] = words[used:]\n",
        "            left = 0\n",
        "tests/privacy/test_noise.py::test_a_tiny_buffer_does_not_change_the_law",
    ),
    Bug(
        "words-used-twice",
        "No random word is used for two draws of noise.",
        NOISE,
        "        left = len(words) - used\n",
        "        left = len(words) - used // 2\n        used = used // 2\n",
        "tests/privacy/test_noise.py::test_a_tiny_buffer_does_not_change_the_law",
    ),
    Bug(
        "scale-rounded-down",
        "The scale of the noise is rounded up: never less noise than owed.",
        NOISE,
        "return Fraction(math.ceil(wanted * 2**binary_places)",
        "return Fraction(math.floor(wanted * 2**binary_places)",
        "tests/privacy/test_noise.py::test_a_scale_is_never_too_small_and_hardly_too_large",
    ),
    # ── noise shares ────────────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "one-sided-shares",
        "Noise shares are differences of two Polya numbers, so noise goes both ways (errata E0-12 b).",
        SHARES,
        "np.where(places & 1, -terms, terms)",
        "np.where(places & 1, terms, terms)",
        "tests/privacy/test_noise_shares.py::test_noise_falls_on_every_coordinate_alike_and_on_both_sides",
    ),
    Bug(
        "share-scale-inverted",
        "The scale of a noise share is a scale and not a rate (errata E3-4).",
        SHARES,
        "np.uint64(blocks), np.uint64(ratio.numerator), np.uint64(ratio.denominator)",
        "np.uint64(blocks), np.uint64(ratio.denominator), np.uint64(ratio.numerator)",
        "tests/privacy/test_noise_shares.py::test_a_share_follows_its_law",
    ),
    Bug(
        "share-shape-without-colluders",
        "The honest devices of any sum that is opened have added noise of shape 1 (errata E3-5).",
        SHARES,
        "return Fraction(1, threshold - colluders)",
        "return Fraction(1, threshold)",
        "tests/distributed/test_cohort.py::test_whoever_is_lost_and_whoever_tells_the_noise_left_has_shape_one",
    ),
    Bug(
        "whole-shape-dropped",
        "A share of shape 1 or more holds all of its noise.",
        SHARES,
        "for _ in range(math.floor(part)):",
        "for _ in range(math.floor(part) - 1):",
        "tests/privacy/test_noise_shares.py::test_a_whole_shape_is_discrete_laplace_noise",
    ),
    Bug(
        "realised-epsilon-of-too-little-noise",
        "The stated privacy loss of noise with a shape below 1 is larger than its target (errata E3-1).",
        SHARES,
        "    return max(target, Fraction(steps * loss * (1 + 1e-12)))",
        "    return target",
        "tests/privacy/test_noise_shares.py::test_realised_epsilon_of_the_errata",
    ),
    Bug(
        "poisson-never-thinned",
        "A Poisson number has its exact mean.",
        SAMPLERS,
        "        if numerator < denominator:\n",
        "        if numerator > denominator:\n",
        "tests/privacy/test_noise_shares.py::test_small_poisson_numbers_follow_their_law",
    ),
    # ── weights and choices ─────────────────────────────────────────────────────────────────────────────────────────
    Bug(
        "weight-rounded-up",
        "A weight is at most e^epsilon times the lowest one.",
        WEIGHTS,
        'least = math.floor(product * (1 - Decimal("1e-55")))',
        'least = math.ceil(product * (1 - Decimal("1e-55")))',
        "tests/local/test_weights.py::test_the_golden_weight",
    ),
    Bug(
        "choice-twice-as-sharp",
        "A choice follows the exponential mechanism at the rate it is given.",
        SELECTION,
        "if _exp_coin(rate * (best - numbers[index]), integers):",
        "if _exp_coin(2 * rate * (best - numbers[index]), integers):",
        "tests/privacy/test_selection.py::test_choices_follow_the_exponential_law",
    ),
    Bug(
        "logistic-coin-never-thrown-again",
        "A logistic coin has exactly its probability.",
        SELECTION,
        "        if _exp_coin(exponent, integers):\n            return True",
        "        return _exp_coin(exponent, integers)",
        "tests/privacy/test_selection.py::test_coins_follow_the_logistic_law",
    ),
)
