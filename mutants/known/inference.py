"""Known bugs of inference: intervals that are too short, samples that are too wide, and hotspots made of noise."""

from mutants.bug import Bug

MESSAGES = "src/heathaze/inference/_messages.py"
POSTERIOR = "src/heathaze/inference/posterior.py"
COVERAGE = "tests/contract/test_coverage.py"

BUGS = (
    Bug(
        "outlines-that-follow-nothing",
        "The interval of a district allows that its outline follows a coast.",
        "src/heathaze/inference/posterior.py",
        "if isinstance(box, Region) and not box.is_box:",
        "if False:",
        "tests/contract/test_coverage.py::test_the_interval_of_a_district_allows_that_its_outline_follows_a_coast",
    ),
    Bug(
        "samples-between-midpoints",
        "A sample lies between the two points of the integral between which it was drawn.",
        MESSAGES,
        "return min(max(y, ys[chosen - 1]), ys[chosen])",
        "return ys[chosen - 1] + part * (ys[min(chosen + 1, count - 1)] - ys[chosen - 1])",
        "tests/inference/test_posterior.py::test_samples_of_sharp_counts_have_no_outliers",
    ),
    Bug(
        "intervals-not-widened",
        "Intervals are widened, since the prior is not exactly right.",
        POSTERIOR,
        "INTERVAL_WIDENING = 1.16",
        "INTERVAL_WIDENING = 1.0",
        "tests/inference/test_posterior.py::test_an_interval_has_widened_quantiles_and_the_noise_of_one_count",
    ),
    Bug(
        "cut-squares-are-even",
        "A square that the border of a region cuts is divided at random, since people in it are not spread evenly.",
        POSTERIOR,
        "or cut.sum() > _MOST_CUT:",
        "or cut.sum() > 0:",
        f"{COVERAGE}::test_intervals_contain_the_truth_and_are_short[empty-0.94-0.62]",
    ),
    Bug(
        "a-total-is-a-hotspot",
        "Hotspots need a count that noise does not explain, besides the total.",
        POSTERIOR,
        "measured[tree.place[0]] = False",
        "pass",
        "tests/release/test_uncertainty.py::test_a_total_alone_is_no_reason_to_name_a_hotspot",
    ),
    Bug(
        "hotspots-as-if-there-were-one-count",
        "The more counts there are, the larger is the largest noise; a hotspot must be larger than that.",
        POSTERIOR,
        "math.log(max(len(value), 1) / (2 * _BY_CHANCE))",
        "math.log(1 / (2 * _BY_CHANCE))",
        "tests/release/test_uncertainty.py::test_a_total_alone_is_no_reason_to_name_a_hotspot",
    ),
    Bug(
        "maps-of-nobody-have-a-share-of-zero",
        "Drawn maps of nobody have no shares, so the whole map has a share of 1.",
        POSTERIOR,
        "        anybody = masses[:, 0] > 0\n",
        "        anybody, masses = np.ones(len(masses), bool), np.maximum(masses, 1e-300)\n",
        "tests/inference/test_posterior.py::test_the_whole_map_has_a_share_of_one_although_some_drawn_maps_are_empty",
    ),
)
