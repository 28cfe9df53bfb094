"""The posterior: against brute force, on any set of nodes, and as honest as it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.central import AdaptiveTree
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import deinterleave, nodes_at
from heathaze.errors import InvalidInput
from heathaze.inference import prior
from heathaze.inference._beliefs import Beliefs
from heathaze.inference.interval import interval
from heathaze.inference.noisy_counts import NONE, NoisyCounts, build
from heathaze.inference.posterior import WIDENING, _ends, posterior
from heathaze.ingest.counts import Counts
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation


def _plane(*shape: int) -> Grid:
    return Grid.plane(x=(0, shape[1]), y=(0, shape[0]), shape=(shape[0], shape[1]))


def _pyramid(grid: Grid, mass: np.ndarray, levels: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels, codes and true counts of whole levels."""
    padded = np.zeros((2**grid.depth,) * 2)
    padded[: grid.rows, : grid.cols] = mass
    found = []
    for level in levels:
        nodes, side = nodes_at(grid, level), 2 ** (grid.depth - level)
        blocks = padded.reshape(2**level, side, 2**level, side).sum(axis=(1, 3))
        found.append((np.full(len(nodes), level), nodes, blocks[deinterleave(nodes)]))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))  # type: ignore[return-value]


# ── against brute force ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "scale"), [([40, 24, 13, 3, 1], 4.0), ([30, 28, 1, -2, 0], 3.0), ([5, 1, 0, 3, 2], 1.5)]
)
@pytest.mark.parametrize("change", [(0.0, 0.0, 0.0, 0.0), (1.5, 0.3, 1.0, 0.7), (-2.0, 0.0, -1.0, -1.0)])
def test_four_cells_agree_with_brute_force(
    values: list[float], scale: float, change: tuple[float, float, float, float]
) -> None:
    """Importance sampling: totals from the noise of their count, shares from the prior, weights from the four cells."""
    noisy = NoisyCounts(_plane(2, 2), [0, 1, 1, 1, 1], [0, 0, 1, 2, 3], values, [2 * scale, *[scale] * 4])
    beliefs = Beliefs(build(noisy))
    beliefs.use(beliefs.prior.changed(*change))
    beliefs.settle()
    rng = np.random.default_rng(1)
    total = values[0] + rng.laplace(0, 2 * scale, 250_000)
    total = total[total >= 0]
    count = len(total)

    def half(index: int, mass: np.ndarray) -> np.ndarray:
        """The mass of the first half: a spike or a slab, and nothing below half a lump (prior.py)."""
        group, centre, found = int(beliefs.group[index]), beliefs.centre[index], beliefs.prior
        weights = np.append(found.weights[group], found.spikes[group])
        slab = rng.choice(len(weights), count, p=weights / weights.sum())
        logit = rng.logistic(size=count)
        for k, concentration in enumerate(prior.SLABS):
            which = slab == k
            sharp = (0.5 if group % 2 == 0 else 0.25) / (1 / concentration + found.lump / np.maximum(mass[which], 1e-9))
            logit[which] = logit[which] / sharp + centre
        share = 1 / (1 + np.exp(-np.clip(logit, -700, 700)))
        spike = slab == len(prior.SLABS)
        share[spike] = rng.random(spike.sum()) < 1 / (1 + np.exp(-centre))
        least = np.minimum(found.lump, mass) / 2
        part = share * mass
        return np.where(part < least, 0, np.where(mass - part < least, mass, part))

    upper = half(0, total)
    north, south = half(1, upper), half(2, total - upper)
    cells = np.stack([north, upper - north, south, total - upper - south])
    fit = -np.abs(np.array(values[1:])[:, None] - cells).sum(axis=0) / scale
    weight = np.exp(fit - fit.max())
    weight /= weight.sum()
    assert 1 / (weight**2).sum() > 300  # enough samples that count
    for place, samples in zip([0, *beliefs.tree.place[1]], [total, *cells], strict=True):
        mean = float(weight @ samples)
        deviation = float(np.sqrt(weight @ samples**2 - mean**2))
        assert beliefs.first[place] == pytest.approx(mean, abs=0.12 * scale)
        found = np.sqrt(beliefs.second[place] - beliefs.first[place] ** 2)
        assert found == pytest.approx(deviation, abs=0.2 * scale)


def test_the_prior_learns_rough_from_smooth_and_empty_from_full() -> None:
    grid = _plane(16, 16)
    rng = np.random.default_rng(3)
    smooth = np.full((16, 16), 100.0)
    rough = np.where(rng.random((16, 16)) < 0.03, 3000.0, 0.0)
    even, empty = {}, {}
    for name, truth in (("smooth", smooth), ("rough", rough)):
        levels, codes, counts = _pyramid(grid, truth, [0, 1, 2, 3, 4])
        noisy = NoisyCounts(grid, levels, codes, counts + rng.laplace(0, 5, len(counts)), np.full(len(counts), 5.0))
        found = Beliefs.infer(noisy).prior
        even[name], empty[name] = float(found.weights[6, 3:].sum()), float(found.spikes[6])
    assert even["smooth"] > 0.8 > 0.3 > even["rough"]
    assert empty["rough"] > 5 * empty["smooth"]


def test_copied_records_are_lumps() -> None:
    """Every person counted 32 times: the lump is learned, and single people keep the lump 1."""
    grid, rng = _plane(32, 32), np.random.default_rng(4)
    people = rng.poisson(rng.gamma(0.3, 3, (32, 32)))
    lumps = {}
    for copies in (1, 32):
        levels, codes, counts = _pyramid(grid, copies * people, list(range(6)))
        noisy = NoisyCounts(grid, levels, codes, counts + rng.laplace(0, 1, len(counts)), np.full(len(counts), 1.0))
        lumps[copies] = Beliefs.infer(noisy).prior.lump
    assert lumps[1] <= 2
    assert lumps[32] >= 4


def test_large_trees_learn_from_a_part_of_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = _plane(64, 64)
    rng = np.random.default_rng(3)
    levels, codes, counts = _pyramid(grid, rng.gamma(0.3, 30, (64, 64)), list(range(7)))
    noisy = NoisyCounts(grid, levels, codes, counts + rng.laplace(0, 5, len(counts)), np.full(len(counts), 5.0))
    part = Beliefs.infer(noisy)
    assert len(part.learner.tree.left) < len(part.tree.left) / 2
    monkeypatch.setattr("heathaze.inference._beliefs._ENOUGH_NODES", 10_000)
    whole = Beliefs.infer(noisy)
    assert whole.learner is whole
    assert part.prior.weights[8:12] == pytest.approx(whole.prior.weights[8:12], abs=0.2)
    assert np.abs(part.first - whole.first).max() < 5


def test_a_part_may_be_shallower_than_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one node of a level is divided, and the part to learn from leaves it out."""
    grid, rng = _plane(64, 64), np.random.default_rng(5)
    levels, codes, counts = _pyramid(grid, rng.gamma(0.3, 30, (64, 64)), list(range(6)))
    deepest = 4 * 345 + np.arange(4)
    levels, codes = np.append(levels, np.full(4, 6)), np.append(codes, deepest)
    noisy = NoisyCounts(grid, levels, codes, np.append(counts, [40, 1, 2, 3]), np.full(len(codes), 5.0))
    monkeypatch.setattr("heathaze.inference._beliefs._ENOUGH_NODES", 5)
    found = posterior(noisy)
    assert found._beliefs.learner.tree.depth < found._beliefs.tree.depth
    assert np.isfinite(found.shares(Box.plane(x=(3, 40), y=(5, 30)))).all()


# ── any set of nodes ────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 20),
    cols=st.integers(1, 20),
    kept=st.sampled_from([0.05, 0.5, 1.0]),
    scale=st.sampled_from([0.01, 1.0, 1000.0]),
)
def test_any_nodes_give_a_sound_posterior(seed: int, rows: int, cols: int, kept: float, scale: float) -> None:
    grid = _plane(rows, cols)
    rng = np.random.default_rng(seed)
    levels, codes, counts = _pyramid(grid, rng.gamma(0.2, 10, (rows, cols)), list(range(grid.depth + 1)))
    chosen = np.flatnonzero(rng.random(len(levels)) < kept)
    chosen = chosen if len(chosen) else np.array([rng.integers(len(levels))])
    scales = scale * rng.choice([1.0, 7.0], len(chosen))
    noisy = NoisyCounts(grid, levels[chosen], codes[chosen], counts[chosen] + rng.laplace(0, scales), scales)
    found = posterior(noisy)
    values = found.density.dense().values
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert found.total >= 0
    for level, belief in enumerate(found.levels[:-1]):
        below = found.levels[level + 1]
        divided = ~belief.leaf
        sums = np.zeros(len(belief.codes))
        np.add.at(sums, np.searchsorted(belief.codes, below.codes >> 2), below.mean)
        assert np.allclose(sums[divided], belief.mean[divided], rtol=1e-9, atol=1e-9 * max(found.total, 1))
    assert all((belief.deviation >= 0).all() for belief in found.levels)
    drawn = found.sample(Simulation(seed)).dense().values
    assert np.isfinite(drawn).all()
    assert (drawn >= 0).all()


def test_little_noise_gives_the_truth() -> None:
    grid = _plane(8, 8)
    truth = np.random.default_rng(2).integers(0, 50, (8, 8)).astype(float)
    levels, codes, counts = _pyramid(grid, truth, [0, 3])
    found = posterior(NoisyCounts(grid, levels, codes, counts, np.full(len(counts), 0.01)))
    assert np.allclose(found.density.dense().values * found.total, truth, atol=0.1)
    assert found.total == pytest.approx(truth.sum(), abs=0.2)


def test_a_leaf_is_shaded_towards_its_heavier_neighbour() -> None:
    found = posterior(NoisyCounts(_plane(8, 8), [1] * 4, [0, 1, 2, 3], [100, 10, 100, 10], [1] * 4))
    row = found.density.dense().values[4]
    assert row[0] >= row[3] > row[4] > row[7] > 0


def test_samples_spread_about_the_mean_as_the_deviation_says() -> None:
    rng = np.random.default_rng(2)
    grid = _plane(8, 8)
    levels, codes, counts = _pyramid(grid, rng.gamma(0.5, 20, (8, 8)), [0, 1, 2])
    found = posterior(
        NoisyCounts(grid, levels, codes, counts + rng.laplace(0, 4, len(counts)), np.full(len(counts), 4.0))
    )
    bits = Simulation(5)
    tree = found._beliefs.tree
    draws = np.stack([found._beliefs.draw(bits) for _ in range(600)])
    for level in (0, 1, 2):
        mean, deviation = found.levels[level].mean, found.levels[level].deviation / WIDENING
        samples = draws[:, tree.place[level]]
        assert np.abs(samples.mean(axis=0) - mean).max() < 1.5
        assert np.median(samples.std(axis=0) / (deviation)) == pytest.approx(1, abs=0.15)


def test_quantiles_of_nodes_are_those_of_samples() -> None:
    rng = np.random.default_rng(2)
    grid = _plane(8, 8)
    levels, codes, counts = _pyramid(grid, rng.gamma(0.5, 20, (8, 8)), [0, 1, 2])
    noisy = NoisyCounts(grid, levels, codes, counts + rng.laplace(0, 4, len(counts)), np.full(len(counts), 4.0))
    beliefs, bits = Beliefs.infer(noisy), Simulation(5)
    draws = np.stack([beliefs.draw(bits) for _ in range(600)])
    place, scale = beliefs.tree.place[2], 4.0
    for probability in (0.05, 0.5, 0.95):
        found, wanted = beliefs.quantile(place, probability), np.quantile(draws[:, place], probability, axis=0)
        assert np.abs(found - wanted).max() < 0.75 * scale
    assert (beliefs.quantile(place, 0.95) > beliefs.quantile(place, 0.05)).all()


def test_the_interval_of_a_sum_is_alike_if_maps_are_drawn_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, rng = _plane(64, 64), np.random.default_rng(3)
    levels, codes, counts = _pyramid(grid, rng.poisson(rng.gamma(0.3, 10, (64, 64))), list(range(7)))
    noisy = NoisyCounts(grid, levels, codes, counts + rng.laplace(0, 3, len(counts)), np.full(len(counts), 3.0))
    part = posterior(noisy)
    monkeypatch.setattr("heathaze.inference._beliefs._ENOUGH_NODES", 10_000)
    whole = posterior(noisy)
    low_people = np.flatnonzero(whole.levels[5].mean < 10)
    nodes = [np.zeros(0, np.int64)] * 5 + [low_people, np.zeros(0, np.int64)]
    widths = []
    for found in (part, whole):
        mean = found.levels[5].mean[low_people].sum()
        low, high = found.sum_interval(nodes, 0.9)
        assert low < mean < high
        widths.append(high - low)
    assert 0.5 < widths[0] / widths[1] < 3
    assert part.sum_interval([np.zeros(0, np.int64)] * 7, 0.9) == (0, 0)
    others = np.flatnonzero(~np.isin(part._beliefs.tree.codes[6], part._beliefs.learner.tree.codes[6]))[:5]
    low, high = part.sum_interval([np.zeros(0, np.int64)] * 6 + [others], 0.9)
    ends = part.intervals(0.9)[6]
    assert low == pytest.approx(ends[0][others].sum())
    assert high == pytest.approx(ends[1][others].sum())


def test_each_node_is_halved_by_its_own_prior() -> None:
    """With the same random numbers, a node gets the same half as if its prior were the only one."""
    rng = np.random.default_rng(6)
    typical = prior.SharePrior.typical(3)
    priors = [typical, typical.changed(2.0, 0.0, 1.0, 1.0), typical.changed(-2.0, 0.0, -1.0, -1.0)]
    which, mass, centre = rng.integers(0, 3, 500), rng.gamma(0.5, 20, 500), rng.normal(0, 1, 500)
    uniforms = rng.random((2, 500))
    found = prior.halve(priors, which, 3, centre, mass, uniforms)
    for k, one in enumerate(priors):
        here = which == k
        alone = prior.halve([one], np.zeros(here.sum(), int), 3, centre[here], mass[here], uniforms[:, here])
        assert (found[here] == alone).all()
    assert ((found >= 0) & (found <= mass)).all()
    assert (prior.halve(priors[:1], 0 * which, 3, centre, mass, uniforms) != found).any()


def test_drawn_divisions_keep_the_mass_and_leave_empty_squares_empty() -> None:
    grid = _plane(7, 8)
    found = posterior(NoisyCounts(grid, [1] * 4, [0, 1, 2, 3], [90, 10, 40, 0], [1] * 4))
    mass = np.random.default_rng(8).gamma(1, 30, (32, 4))
    mass[:, 3] = 0.0
    codes, divided = found._divided(1, np.arange(4), mass, [found._beliefs.prior] * 2, Simulation(2))
    sums = np.zeros((32, 4))
    np.add.at(sums.T, codes >> 2, divided.T)
    assert np.allclose(sums, mass)
    assert (divided[:, codes >> 2 == 3] == 0).all()
    assert (divided[:, codes >> 2 == 0] > 0).any()


def test_samples_of_sharp_counts_have_no_outliers() -> None:
    """A million people: a sample lies between two points of the integral, however far apart the points are."""
    grid, rng = _plane(64, 64), np.random.default_rng(7)
    truth = rng.multinomial(1_000_000, rng.dirichlet(np.full(4096, 0.1))).reshape(64, 64)
    levels, codes, counts = _pyramid(grid, truth, [0, 2, 4, 6])
    noisy = NoisyCounts(grid, levels, codes, counts + rng.laplace(0, 3, len(counts)), np.full(len(counts), 3.0))
    beliefs, bits = Beliefs.infer(noisy), Simulation(3)
    drawn = np.stack([beliefs.draw(bits) for _ in range(60)])
    deviation = np.sqrt(np.maximum(beliefs.second - beliefs.first**2, 0))
    assert np.median(drawn.std(axis=0)[deviation > 1] / deviation[deviation > 1]) == pytest.approx(1, abs=0.1)
    away = np.abs(drawn - beliefs.first)[:, deviation > 1] / deviation[deviation > 1]
    assert (away**2)[away > 8].sum() / (away**2).sum() < 0.05  # 59 % before, when samples were placed between midpoints


def test_a_huge_grid_costs_what_its_nodes_cost() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=2**20)
    noisy = NoisyCounts(grid, [0, 1, 1, 1, 1, 20], [0, 0, 1, 2, 3, 12345], [9, 9, 0, 0, 0, 8], [1] * 6)
    found = posterior(noisy)
    assert len(found.squares[0]) <= 2**17
    assert found.density.mass_in(grid.box) == pytest.approx(1)


def test_split_trees_reach_every_leaf_once() -> None:
    grid = _plane(5, 3)
    tree = build(NoisyCounts(grid, [3], [0], [1], [1]))
    reached = np.concatenate([tree.left[tree.left != NONE], tree.right[tree.right != NONE]])
    assert sorted([0, *reached.tolist()]) == list(range(len(tree.left)))
    assert [stop for _, stop in tree.stages][-1] == len(tree.left)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (([0], [0], [np.nan], [1]), "finite values"),
        (([0], [0], [1], [-1]), "not negative"),
        (([9], [0], [1], [1]), "does not have"),
        (([0, 0], [0, 0], [1, 1], [1, 1]), "twice"),
        (([], [], [], []), "at least one"),
        (([2], [15], [1], [1]), "padding"),
    ],
)
def test_bad_counts_get_a_sentence(fields: tuple, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        NoisyCounts(_plane(3, 3), *fields)


# ── honesty ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_intervals_are_the_shortest_of_a_gamma() -> None:
    from scipy.stats import gamma

    for shape in (0.5, 2.0, 40.0, 1000.0):
        low, high = interval([shape], [np.sqrt(shape)], 0.9)
        assert gamma.cdf(high, shape)[0] - gamma.cdf(low, shape)[0] == pytest.approx(0.9, abs=2e-3)
        if shape > 1:
            assert gamma.pdf(low, shape)[0] == pytest.approx(gamma.pdf(high, shape)[0], rel=0.15)
    assert interval([3.0], [0.0], 0.9)[0][0] == pytest.approx(3.0, rel=0.01)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        interval([1.0], [1.0], 1.0)


def test_an_interval_has_widened_quantiles_and_the_noise_of_one_count() -> None:
    """Quantiles 5 and 95 around 80: sides of 75 and 15, times 1.16; and never less than √2 times the scale of noise."""
    low, high = _ends(np.linspace(0, 100, 1001), 80.0, 0.9, 0.0)
    assert (low, high) == (pytest.approx(80 - 1.16 * 75), pytest.approx(80 + 1.16 * 15))
    low, high = _ends(np.full(100, 80.0), 80.0, 0.9, 3.0)
    assert (low, high) == (pytest.approx(80 - 3 * np.sqrt(2)), pytest.approx(80 + 3 * np.sqrt(2)))


def test_shares_of_boxes_are_covered() -> None:
    """The shares of three boxes apart from each other, over 20 releases: 90 % intervals hold about nine in ten."""
    grid = _plane(16, 16)
    boxes = (1, 8, 2, 11), (9, 15, 1, 7), (9, 14, 7, 16)  # left, right, bottom and top
    held = 0
    for run in range(20):
        rng = np.random.default_rng(run)
        cells = np.clip(rng.normal(rng.uniform(4, 12, 2), 3, (1000, 2)), 0, 15).astype(int)
        mass = np.zeros((16, 16), np.int64)
        np.add.at(mass, tuple(cells.T), 1)
        rows, cols = np.nonzero(mass)
        counts = Counts.from_cells(grid, rows, cols, mass[rows, cols], bound=1, one=1, unit=Unit.PERSON)
        found = posterior(AdaptiveTree(grid, 1).measure(counts, Simulation(run)))
        for left, right, bottom, top in boxes:
            box = Box.plane(x=(left, right), y=(bottom, top))
            low, high = found.interval(box, found.density.mass_in(box), 0.9)
            held += low <= mass[bottom:top, left:right].sum() / 1000 <= high
    assert 48 <= held <= 60


@pytest.mark.slow
def test_the_total_of_a_sparse_map_is_covered_on_both_sides() -> None:
    """The prior takes places for empty too often, so the truth lies above the interval more often than below."""
    grid = _plane(16, 16)
    below = above = 0
    for run in range(300):
        rng = np.random.default_rng(run)
        middles, spread = rng.uniform(0, 16, (12, 2)), 16 * np.exp(rng.uniform(-5, -1.5, 12))
        of = rng.choice(12, 300, p=rng.dirichlet(np.full(12, 0.4)))
        cells = np.clip(middles[of] + rng.normal(size=(300, 2)) * spread[of][:, None], 0, 15.9).astype(int)
        codes, mass = np.unique(cells[:, 0] * 16 + cells[:, 1], return_counts=True)
        counts = Counts.from_cells(grid, codes // 16, codes % 16, mass, bound=1, one=1, unit=Unit.PERSON)
        found = posterior(AdaptiveTree(grid, 1).measure(counts, Simulation(run)))
        low, high = (float(ends[0]) for ends in found.intervals(0.9)[0])
        below, above = below + (low > 300), above + (high < 300)
    print(f"{below} intervals lie above the truth, and {above} below it")
    assert below <= 15
    assert above <= 30


@pytest.mark.parametrize("seed", range(4))
def test_the_whole_map_has_a_share_of_one_although_some_drawn_maps_are_empty(seed: int) -> None:
    grid = _plane(16, 16)
    counts = Counts.from_cells(grid, np.array([3]), np.array([4]), np.array([5]), bound=1, one=1, unit=Unit.PERSON)
    found = posterior(AdaptiveTree(grid, 0.1).measure(counts, Simulation(seed)))
    low, high = found.interval(Box.plane(x=(0, 16), y=(0, 16)), 1.0, 0.9)
    assert (low, high) == (pytest.approx(1), pytest.approx(1))


@pytest.mark.parametrize(("people", "epsilon", "seed"), [(1_000_000, 4, 3), (200_000, 10, 2)])
def test_sharp_counts_stay_where_they_are(people: int, epsilon: float, seed: int) -> None:
    """Millions of people: the prior's long stretches must not outweigh a peak that is narrow against them."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    rng = np.random.default_rng(seed)
    middle = (np.arange(64) + 0.5) / 64
    shares = np.full((64, 64), 0.1 / 4096)
    for _ in range(20):
        y, x = rng.uniform(0.1, 0.9, 2)
        bell = np.exp(-((middle[:, None] - y) ** 2 + (middle[None] - x) ** 2) / (2 * 0.03**2))
        shares += bell / bell.sum() / 20
    mass = rng.multinomial(people, (shares / shares.sum()).ravel()).reshape(64, 64)
    rows, cols = np.nonzero(mass)
    counts = Counts.from_cells(grid, rows, cols, mass[rows, cols], bound=1, one=1, unit=Unit.PERSON)
    found = posterior(AdaptiveTree(grid, epsilon).measure(counts, Simulation(seed)))
    for level in (1, 2, 3):
        belief = found.levels[level]
        assert np.abs(belief.mean - counts.at(level, belief.codes)).sum() / people < 1e-3


def test_numbers_too_sharp_to_tell_apart_are_no_reason_to_fail() -> None:
    noisy = NoisyCounts(_plane(32, 32), np.full(1024, 5), np.arange(1024), np.full(1024, 1e10), np.full(1024, 1e-6))
    found = posterior(noisy)
    assert found.total == pytest.approx(1024e10, rel=1e-6)
    assert np.isfinite(found.density.dense().values).all()
