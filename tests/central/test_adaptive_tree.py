"""AdaptiveTree: gradual release is exact, no path overspends, and the worst transcript costs what was promised."""

import gc
import itertools
import math
import weakref
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.central import AdaptiveTree, adaptive_tree, default
from heathaze.central.adaptive_tree import GradualRelease, _chance_of_nothing, release_gradually
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.ingest.counts import Counts
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.randomness import Simulation
from heathaze.testing import neighbouring_counts
from heathaze.testing.statistics import assert_distribution, discrete_laplace_law, two_sample


def _counts(grid: Grid, mass: np.ndarray, bound: int) -> Counts:
    rows, cols = np.nonzero(mass)
    return Counts.from_cells(grid, rows, cols, mass[rows, cols], bound=bound, one=bound, unit=Unit.PERSON)


# ── gradual release ─────────────────────────────────────────────────────────────────────────────────────────────────

SCALES = [
    (Fraction(3), Fraction(1)),
    (Fraction(1), Fraction(1, 2)),
    (Fraction(40), Fraction(3)),
    (Fraction(2), Fraction(2)),
]


def _laplace(scale: Fraction, reach: int) -> np.ndarray:
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / float(scale))
    return weights / weights.sum()


def _coarse_law(coarse: Fraction, sharp: Fraction, chance: float, reach: int) -> np.ndarray:
    more = (1 - chance) * _laplace(coarse, reach)
    more[reach] += chance
    return np.convolve(_laplace(sharp, reach), more, mode="same")


@pytest.mark.parametrize(("coarse", "sharp"), SCALES[:3])
def test_the_coarse_look_is_laplace_of_its_own_scale(coarse: Fraction, sharp: Fraction) -> None:
    reach = math.ceil(60 * coarse)
    law = _coarse_law(coarse, sharp, _chance_of_nothing(coarse, sharp) / 2**52, reach)
    middle = slice(reach - math.ceil(15 * coarse), reach + math.ceil(15 * coarse))
    assert np.allclose(law[middle], _laplace(coarse, reach)[middle], rtol=1e-8)


@pytest.mark.parametrize(("coarse", "sharp"), SCALES[:3])
@pytest.mark.parametrize(("factor", "keeps"), [(1.0, True), (0.5, True), (0.0, True), (1.1, False), (1.5, False)])
def test_a_smaller_chance_of_nothing_is_safe_and_a_larger_one_is_not(
    coarse: Fraction, sharp: Fraction, factor: float, keeps: bool
) -> None:
    reach = math.ceil(60 * coarse)
    chance = factor * _chance_of_nothing(coarse, sharp) / 2**52
    law = _coarse_law(coarse, sharp, min(chance, 1.0), reach)
    middle = law[reach - math.ceil(15 * coarse) : reach + math.ceil(15 * coarse)]
    steepest = np.abs(np.diff(np.log(middle))).max() * float(coarse)
    assert (steepest <= 1 + 1e-6) == keeps


@pytest.mark.parametrize(("coarse", "sharp"), SCALES)
def test_the_noise_drawn_follows_both_laws(coarse: Fraction, sharp: Fraction) -> None:
    seen = release_gradually(np.zeros(100_000, np.int64), coarse, sharp, Simulation(3))
    assert_distribution(seen.coarse, discrete_laplace_law(coarse))
    assert_distribution(seen.sharp, discrete_laplace_law(sharp))


def test_what_is_added_does_not_depend_on_what_it_is_added_to() -> None:
    seen = release_gradually(np.zeros(200_000, np.int64), Fraction(9), Fraction(2), Simulation(4))
    added = seen.coarse - seen.sharp
    assert two_sample(added[seen.sharp > 0], added[seen.sharp <= 0]) > 1e-6


def test_the_same_scale_twice_is_one_count() -> None:
    seen = release_gradually(np.arange(5), Fraction(2), Fraction(2), Simulation(1))
    assert np.array_equal(seen.coarse, seen.sharp)


# ── the promise ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _loss(search: adaptive_tree._Search, first: Counts, second: Counts) -> float:
    """Log-ratio of a transcript's probabilities: coarse numbers where divided, sharp ones at the leaves."""
    loss = 0.0
    for level, codes, values, parts in search.found:
        for value, a, b, spent in zip(
            values, first.at(level, codes), second.at(level, codes), parts.tolist(), strict=True
        ):
            loss += (abs(int(value) - int(b)) - abs(int(value) - int(a))) / float(search._scale(spent))
    return loss


def _scripted(monkeypatch: pytest.MonkeyPatch, numbers) -> None:
    """Let the search see these numbers instead of noise; what it does may depend on nothing else."""

    def release_script(counts: np.ndarray, *_: object) -> GradualRelease:
        return GradualRelease(*(np.array([next(numbers) for _ in counts]) for _ in range(2)))

    monkeypatch.setattr(adaptive_tree, "release_gradually", release_script)


def _run(counts: Counts, epsilon: Fraction) -> adaptive_tree._Search:
    search = adaptive_tree._Search(counts, epsilon, Simulation(1))
    search.run()
    return search


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(3)])
@pytest.mark.parametrize("shape", [(2, 2), (8, 8), (5, 3), (1, 16)])
def test_no_transcript_costs_more_than_epsilon(
    shape: tuple[int, int], epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = Grid.plane(x=(0, shape[1]), y=(0, shape[0]), shape=shape)
    bound, rng, worst = 6, np.random.default_rng(5), 0.0
    for _ in range(150):
        base = rng.integers(0, 4, shape) * (rng.random(shape) < 0.5)
        person = np.zeros(grid.cells, np.int64)
        np.add.at(person, rng.integers(0, grid.cells, rng.choice([1, 1, 2, 6])), 1)
        person = person * (bound // person.sum())  # in one place, in two, or spread thin
        first, second = _counts(grid, base, bound), _counts(grid, base + person.reshape(shape), bound)
        # Numbers far above all counts let the search go deep, numbers near them make it stop.
        reach = int(rng.choice([5, 60, 4000]))
        script = rng.integers(-5, reach, 20_000).tolist()
        _scripted(monkeypatch, iter(script))
        search = _run(first, epsilon)
        _scripted(monkeypatch, iter(script))
        again = _run(second, epsilon)
        for here, there in zip(search.found, again.found, strict=True):
            for a, b in zip(here, there, strict=True):
                assert np.array_equal(a, b)
        worst = max(worst, abs(_loss(search, first, second)))
    assert worst <= epsilon
    assert worst > 0.9 * epsilon  # the search for the worst case looks in the right place


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(4)])
def test_every_transcript_of_two_cells(epsilon: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, within reach: their probabilities sum to 1 and no ratio is beyond exp(ε)."""
    grid = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    bound = 2
    people = [np.array([[2, 0]]), np.array([[0, 2]]), np.array([[1, 1]])]
    base = np.array([[1, 3]])
    neighbours = [_counts(grid, base, bound), *(_counts(grid, base + person, bound) for person in people)]
    reach = range(-70, 78)
    mass, worst = 0.0, 0.0
    for total in itertools.chain(range(-1500, 1500, 7)):
        script = iter([total, total, *[5] * 100])
        _scripted(monkeypatch, script)
        search = _run(neighbours[0], epsilon)
        assert [level for level, codes, *_ in search.found if len(codes)] == [0, 1]
        parts = {level: parts[0] for level, codes, _, parts in search.found if len(codes)}
        scales = {level: float(search._scale(int(spent))) for level, spent in parts.items()}
        root = [_pmf(total, counts.at(0, np.zeros(1, np.int64))[0], scales[0]) for counts in neighbours]
        cells = [
            np.outer(*(_pmf(np.array(reach), count, scales[1]) for count in counts.at(1, np.arange(2))))
            for counts in neighbours
        ]
        mass += 7 * root[0] * cells[0].sum()
        for other_root, other in zip(root[1:], cells[1:], strict=True):
            ratios = np.log(other_root / root[0]) + np.log(other / cells[0])
            worst = max(worst, float(np.abs(ratios).max()))
    assert mass == pytest.approx(1, abs=0.03)
    assert 0.9 * epsilon < worst <= epsilon * (1 + 1e-12)


def _pmf(values, count: int, scale: float):
    r = math.exp(-1 / scale)
    return (1 - r) / (1 + r) * np.exp(-np.abs(np.asarray(values, dtype=np.float64) - count) / scale)


def _scripted_search(monkeypatch: pytest.MonkeyPatch, sharp_seed: int) -> adaptive_tree._Search:
    """A search on scripted numbers: coarse ones are even, and sharp ones odd and of any size."""
    coarse_rng, sharp_rng = np.random.default_rng(1), np.random.default_rng(sharp_seed)

    def release_script(counts: np.ndarray, coarse_scale: Fraction, sharp_scale: Fraction, _: object) -> GradualRelease:
        coarse = 2 * coarse_rng.integers(0, 10**5, len(counts))
        if coarse_scale == sharp_scale:
            return GradualRelease(coarse, coarse)
        return GradualRelease(coarse, 2 * sharp_rng.integers(0, 10 ** sharp_rng.integers(1, 7), len(counts)) + 1)

    monkeypatch.setattr(adaptive_tree, "release_gradually", release_script)
    grid = Grid.plane(x=(0, 32), y=(0, 32), size=32)
    return _run(_counts(grid, np.ones((32, 32), np.int64), 1000), Fraction(1))


def test_divided_nodes_publish_their_coarse_count_and_leaves_their_sharp_one(monkeypatch: pytest.MonkeyPatch) -> None:
    search = _scripted_search(monkeypatch, 2)
    leaves, inner = search.found[::2], search.found[1::2]
    assert sum(len(codes) for _, codes, _, _ in inner) > 5
    assert all((values % 2 == 0).all() for _, _, values, _ in inner)
    sharpened = sum(int((values % 2).sum()) for _, _, values, _ in leaves)
    assert sharpened > 5  # and the rest were bought with all that was left, in one look


def test_sharp_counts_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other secrets behind the same public numbers: the same tree, at the same prices."""
    first, second = (_scripted_search(monkeypatch, seed) for seed in (2, 3))
    for (level, codes, _, parts), (other_level, other_codes, _, other_parts) in zip(
        first.found, second.found, strict=True
    ):
        assert level == other_level
        assert np.array_equal(codes, other_codes)
        assert np.array_equal(parts, other_parts)


def test_nothing_of_the_data_outlives_the_run() -> None:
    grid = Grid.plane(x=(0, 16), y=(0, 16), size=16)
    counts = _counts(grid, np.ones((16, 16), np.int64), 1)
    held = weakref.ref(counts)
    AdaptiveTree(grid, 1).run(counts, Simulation(1))
    del counts
    gc.collect()
    assert held() is None


def test_a_tree_stays_within_its_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many people there are, the tree stops growing; whoever shows least stays whole, and no budget is lost."""
    monkeypatch.setattr(adaptive_tree, "MOST_NODES", 500)
    grid = Grid.plane(x=(0, 64), y=(0, 64), size=64)
    search = _run(_counts(grid, np.full((64, 64), 10_000), 1), Fraction(5))
    assert 100 < search.measured <= 500
    noisy = search._result()
    assert len(noisy.codes) <= 500


def test_overspending_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug put back: descendants that get all the budget of their parent, not what it left."""
    real = adaptive_tree._Search._measure

    def greedy(self, level, codes, spend, left, above=None, parent=None):
        real(self, level, codes, spend, adaptive_tree.PARTS, above, parent)

    grid = Grid.plane(x=(0, 16), y=(0, 16), size=16)
    counts = _counts(grid, np.full((16, 16), 1000), 1)
    AdaptiveTree(grid, 1).run(counts, Simulation(1))
    monkeypatch.setattr(adaptive_tree._Search, "_measure", greedy)
    with pytest.raises(PromiseBroken, match="spent more than its budget"):
        AdaptiveTree(grid, 1).run(counts, Simulation(1))


def test_measuring_a_node_twice_is_noticed() -> None:
    twice = [(0, np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64))] * 2
    with pytest.raises(PromiseBroken, match="measured twice"):
        adaptive_tree._check_paths(twice)


@given(seed=st.integers(0, 2**32), epsilon=st.sampled_from([0.05, 1, 30]), people=st.sampled_from([0, 3, 300, 100_000]))
def test_whole_budget_on_every_path(seed: int, epsilon: float, people: int) -> None:
    """Nothing is wasted: from the root to every leaf exactly all parts are spent, and the leaves tile the grid."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 40, 2).tolist())
    grid = Grid.plane(x=(0, shape[1]), y=(0, shape[0]), shape=shape)
    mass = rng.multinomial(people, rng.dirichlet(np.full(grid.cells, 0.05))).reshape(shape)
    search = adaptive_tree._Search(_counts(grid, mass * 8, 8), Fraction(epsilon), Simulation(seed))
    search.run()
    spent: dict[tuple[int, int], int] = {}
    covered = 0
    for index, (level, codes, _, parts) in enumerate(search.found):
        for code, own in zip(codes.tolist(), parts.tolist(), strict=True):
            above = next(
                (spent[level - k, code >> 2 * k] for k in range(1, level + 1) if (level - k, code >> 2 * k) in spent), 0
            )
            spent[level, code] = above + own
            if index % 2 == 0:  # leaves
                assert spent[level, code] == adaptive_tree.PARTS
                covered += int(_area(grid, level, code))
    assert covered == grid.cells


def _area(grid: Grid, level: int, code: int) -> float:
    from heathaze.inference.prior import areas

    return float(areas(grid, level, np.array([code]))[0])


# ── what users see ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_default_is_the_adaptive_tree() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=8)
    assert default(grid, 0.5) == AdaptiveTree(grid, Fraction(1, 2))


def test_too_much_noise_for_64_bits_is_refused_before_anything_is_charged() -> None:
    with pytest.raises(InvalidInput, match="does not fit into 64 bits"):
        AdaptiveTree(Grid.plane(x=(0, 1), y=(0, 1), size=8), 1e-6).event(2**30)


def test_more_people_are_seen_more_finely() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    rng = np.random.default_rng(1)
    bell = np.exp(-((np.arange(64) - 20) ** 2) / 50)
    shares = np.outer(bell, bell).ravel()
    mass = rng.multinomial(1000, shares / shares.sum()).reshape(64, 64)
    nodes = [
        len(AdaptiveTree(grid, 1).measure(_counts(grid, mass * times, 1), Simulation(2)).codes)
        for times in (1, 10, 100)
    ]
    assert nodes[0] < nodes[1] < nodes[2]


def test_nobody_gives_a_map() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=32)
    estimate = AdaptiveTree(grid, 1).run(_counts(grid, np.zeros((32, 32), np.int64), 1), Simulation(1))
    assert estimate.density.dense().values.sum() == pytest.approx(1)
    assert 0 <= estimate.total < 100


def test_better_than_the_rivals_on_a_synthetic_city() -> None:
    from heathaze.central import AdaptiveGrid, PrivTree, Pyramid

    grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    distances: dict[str, list[float]] = {}
    for run in range(6):
        rng = np.random.default_rng(run)
        centres = rng.uniform(8, 56, (12, 2))
        places = np.clip(centres[rng.integers(0, 12, 600)] + rng.normal(0, 3, (600, 2)), 0, 63).astype(int)
        mass = np.zeros((64, 64), np.int64)
        np.add.at(mass, tuple(places.T), 1)
        counts, truth = _counts(grid, mass, 1), Density.from_mass(grid, mass).smooth(2)
        for mechanism in (AdaptiveTree(grid, 1), Pyramid(grid, 1), PrivTree(grid, 1), AdaptiveGrid(grid, 1)):
            found = mechanism.run(counts, Simulation(run)).density.dense().smooth(2)
            distances.setdefault(type(mechanism).__name__, []).append(np.abs(found.values - truth.values).sum())
    means = {name: np.mean(values) for name, values in distances.items()}
    assert means["AdaptiveTree"] < 0.95 * min(value for name, value in means.items() if name != "AdaptiveTree")


def test_laplace_scales_are_rounded_up() -> None:
    search = adaptive_tree._Search(
        neighbouring_counts(Grid.plane(x=(0, 1), y=(0, 1), size=4))[0].first, Fraction(1, 3), Simulation(1)
    )
    for parts in (64, 65, 1000, 4096):
        assert search._scale(parts) >= search.counts.bound / (Fraction(1, 3) * parts / 4096)
        assert search._scale(parts) == laplace_scale(search.counts.bound, Fraction(parts, 3 * 4096))
    assert adaptive_tree._BITS == 52
