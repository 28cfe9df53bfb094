"""Split and mix: exact sums, exact noise, the exact δ of a whole small protocol, and every known way to leak."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import heathaze as hz
from heathaze.central import Pyramid
from heathaze.errors import AlreadyCharged, InvalidInput, PromiseBroken, SensitivityExceeded, UnexpectedMessage
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, MixedShares, flatten
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.noise_shares import noise_share
from heathaze.privacy.split_and_mix_loss import distance_to_uniform
from heathaze.release.formats.metadata import _check_promise
from heathaze.shuffle import (
    Batch,
    Participant,
    Rounds,
    Shuffler,
    SplitAndMix,
    estimate_rounds,
    simulate,
    simulate_rounds,
)
from heathaze.shuffle.mechanism import cells_of
from heathaze.shuffle.shares import Round, parts_of
from heathaze.testing.statistics import assert_distribution, chi_square, discrete_laplace_law
from heathaze.types import Floats, Integers

GRID = hz.Grid.plane(x=(0, 4), y=(0, 4), size=4)
FEW = SplitAndMix(GRID, 9, people=6, delta=0.01, parts=4, w=4)
PLACES = [(0.5, 3.5), (0.5, 3.5), (3.5, 0.5), (1.5, 1.5), (2.5, 2.5), (0.5, 0.5)]


def noiseless(protocol: SplitAndMix) -> SplitAndMix:
    """The same protocol without noise, to test everything else exactly."""
    quiet = SplitAndMix(
        protocol.grid, protocol.epsilon, protocol.people, protocol.delta, protocol.parts, protocol.w, protocol.gamma
    )
    plans = tuple(dataclasses.replace(plan, scale=Fraction(0)) for plan in protocol.plans)
    object.__setattr__(quiet, "plans", plans)
    return quiet


# ── sums ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_add_up_to_the_counts_exactly() -> None:
    protocol, randomness = noiseless(FEW), hz.Simulation(1)
    asked = Round(protocol, 1, tuple(range(16)))
    cells = np.array([0, 0, 15, 6, 9, 12])
    messages, senders = asked.draw(cells, randomness)
    found = asked.decode(messages, 6)
    rows, cols = np.divmod(cells, 4)
    from heathaze.domain.quadtree import interleave

    np.testing.assert_array_equal(found, 4 * np.bincount(interleave(rows, cols), minlength=16))
    assert set(np.bincount(senders)) == {asked.least_messages}


def test_negative_and_full_sums_are_decoded() -> None:
    """Errata E0-12 e: a node that holds everyone is not 0, and negative noise is not nearly q."""
    asked = Round.first(FEW)
    plan = asked.plan
    low, high = -plan.below, plan.modulus - plan.below - 1
    assert high >= FEW.parts * FEW.most
    sums = np.array([low, 0, FEW.parts * FEW.most, high])
    np.testing.assert_array_equal(asked.centred(sums % plan.modulus), sums)


def test_places_of_one_person_become_whole_parts() -> None:
    for seed in range(30):
        codes, parts = parts_of(FEW, np.array([0, 1, 1, 5, 9, 15]), hz.Simulation(seed))
        assert parts.sum() == FEW.parts
        assert len(codes) == 5
    with pytest.raises(SensitivityExceeded, match="do not add up"):
        Round.first(FEW).noisy(np.array([0, 1]), np.array([3, 2]), hz.Simulation(1))


def test_nodes_of_a_round_follow_from_noisy_sums_alone() -> None:
    protocol = SplitAndMix(hz.Grid.plane(x=(0, 4), y=(0, 4), size=8), 9, people=6, delta=0.01, parts=4, w=4)
    found = simulate_rounds(protocol, PLACES * 2, [0, 1, 2, 3, 4, 5] * 2, randomness=hz.Simulation(3))
    assert found.people == (6, 6, 6)
    assert [len(asked.nodes) for asked in found.rounds] == [4, 16, 16]
    kept = np.argsort(-found.sums[1], kind="stable")[: protocol.w]
    parents = np.array(found.rounds[1].nodes)[kept].tolist()
    assert set(found.rounds[2].nodes) == {4 * node + k for node in parents for k in range(4)}


# ── noise ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_given_the_same_noise_the_map_is_that_of_the_central_pyramid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's fit: same scales, same nodes in the same order, and the same map, cell for cell."""
    grid = hz.Grid.plane(x=(0, 4), y=(0, 4), size=32)
    protocol = SplitAndMix(grid, 4, people=300, delta=0.01, parts=4, w=7)
    places = np.random.default_rng(1).normal((1.3, 2.4), 0.5, (300, 2)).clip(0, 3.99)
    found = simulate_rounds(protocol, places, randomness=hz.Simulation(2))
    cells, people = np.unique(cells_of(grid, places), return_counts=True)
    secret = hz.Counts.from_cells(grid, cells // 32, cells % 32, 4 * people, bound=4, one=4, unit=Unit.PERSON)
    rounds = iter(zip(found.rounds, found.sums, strict=True))

    def same_noise(scale: Fraction, size: int, _: object) -> Integers:
        asked, sums = next(rounds)
        assert (scale, size) == (asked.plan.scale, len(asked.nodes))
        return sums - secret.at(asked.plan.level, np.array(asked.nodes))

    monkeypatch.setattr("heathaze.central.pyramid.discrete_laplace", same_noise)
    central = Pyramid(grid, epsilon=2, w=7).run(secret, hz.Simulation(1))
    ours = estimate_rounds(found, paper=True)
    assert next(rounds, None) is None
    assert (np.concatenate(found.sums) < 0).any()
    np.testing.assert_array_equal(ours.density.dense().values, central.density.dense().values)
    assert ours.total == central.total


def test_the_noise_of_all_people_is_discrete_laplace_on_every_level() -> None:
    protocol = SplitAndMix(GRID, 9, people=3, delta=0.1, parts=4, w=4)
    randomness, nowhere = hz.Simulation(5), np.array([15])
    for asked, times in ((Round.first(protocol), 1000), (Round(protocol, 1, tuple(range(16))), 300)):
        shares = [asked.noisy(nowhere, np.array([4]), randomness)[:-1] for _ in range(3 * times)]
        noise = np.array(shares).reshape(times, 3, -1).sum(axis=1).ravel()
        assert_distribution(noise, discrete_laplace_law(asked.plan.scale))


def test_the_noise_of_the_simulation_is_discrete_laplace_on_every_level() -> None:
    by_level: dict[int, list[int]] = {}
    scales = {plan.level: plan.scale for plan in FEW.plans}
    for seed in range(150):
        found = simulate_rounds(FEW, [(0.5, 0.5)] * 6, randomness=hz.Simulation(seed))
        for asked, sums in zip(found.rounds, found.sums, strict=True):
            empty = np.array(asked.nodes) != 0
            by_level.setdefault(asked.plan.level, []).extend(sums[empty].tolist())
    for level, noise in by_level.items():
        assert_distribution(np.array(noise), discrete_laplace_law(scales[level]))


# ── the exact δ of a whole protocol ─────────────────────────────────────────────────────────────────────────────────


def test_the_exact_delta_of_a_whole_small_protocol() -> None:
    """Two people, q = 7, five messages. The noise that devices send is measured, all the rest is enumerated.

    The counts of one node change by B = 2, which is half of what a replaced person changes; so half of ε = 2 holds.
    Exactly δ is .0013. It is 1 if the noise is not sent, .51 if it is one-sided, .37 if its scale is without B, and .25
    if its shape is for twice the people (errata E0-12 a, b, c).
    """
    asked = Round.first(small_protocol())
    randomness, draws = hz.Simulation(11), 6000
    noise = np.zeros(7)
    for _ in range(draws):
        messages = asked.split(asked.noisy(np.array([3]), np.array([2]), randomness), randomness)
        sent = messages[messages[:, 1] == 0][:, -1].sum()
        noise[sent % 7] += 1 / draws
    assert exact_delta(noise, 1.0) < 0.05


def test_the_exact_delta_tells_wrong_noise_from_right_noise() -> None:
    share = polya_difference(0.5, 2.0)
    assert exact_delta(share, 1.0) == pytest.approx(0.0013, abs=1e-4)
    assert exact_delta(np.eye(7)[0], 1.0) == pytest.approx(1.0, abs=0.02)
    assert exact_delta(residues(polya(0.5, 2.0)), 1.0) == pytest.approx(0.51, abs=0.01)
    assert exact_delta(polya_difference(0.5, 1.0), 1.0) == pytest.approx(0.37, abs=0.01)
    assert exact_delta(polya_difference(0.25, 2.0), 1.0) == pytest.approx(0.25, abs=0.01)


def small_protocol() -> SplitAndMix:
    protocol = SplitAndMix(hz.Grid.plane(x=(0, 2), y=(0, 2), size=2), 2, people=2, delta=0.5, parts=2, w=4)
    [plan] = protocol.plans
    object.__setattr__(protocol, "plans", (dataclasses.replace(plan, modulus=7, packed=1, messages=5),))
    return protocol


def exact_delta(noise: Floats, epsilon: float) -> float:
    """The largest δ over all counts of the other person, if one person's count changes from 0 to 2 or back."""
    own: dict[int, Floats] = {}
    for free in itertools.product(range(7), repeat=4):
        for z in range(7):
            code = sum(11**message for message in (*free, (z - sum(free)) % 7))
            own.setdefault(code, np.zeros(7))[z] += 7.0**-4
    codes, laws = np.array(list(own)), np.array(list(own.values()))
    _, place = np.unique((codes[:, None] + codes).ravel(), return_inverse=True)

    def law(first: int, second: int) -> Floats:
        one, two = laws @ np.roll(noise, first), laws @ np.roll(noise, second)
        return np.asarray(np.bincount(place, np.outer(one, two).ravel()), np.float64)

    worst = 0.0
    for other in (0, 1, 2):
        here, there = law(0, other), law(2, other)
        for p, q in ((here, there), (there, here)):
            worst = max(worst, float(np.maximum(p - math.exp(epsilon) * q, 0).sum()))
    return worst


def polya(shape: float, scale: float) -> Floats:
    x = np.arange(200)
    beta = math.exp(-1 / scale)
    steps = np.concatenate([[1.0], np.cumprod((x[:-1] + shape) / (x[:-1] + 1) * beta)])
    return np.asarray(steps * (1 - beta) ** shape)


def residues(law: Floats, first: int = 0) -> Floats:
    return np.asarray(np.bincount((np.arange(len(law)) + first) % 7, law, minlength=7), np.float64)


def polya_difference(shape: float, scale: float) -> Floats:
    one = polya(shape, scale)
    return residues(np.convolve(one, one[::-1]), first=-(len(one) - 1))


def test_the_scale_of_the_noise_and_the_share_of_delta() -> None:
    """Errata E0-12 c: one person's B parts leave and B others come, so every level has scale 2B / ε_i."""
    spent = sum(2 * FEW.parts / plan.scale for plan in FEW.plans)
    assert spent <= FEW.epsilon < spent * Fraction(1001, 1000)
    deep = SplitAndMix(hz.Grid.plane(x=(0, 1), y=(0, 1), size=256), 2, people=6, delta=0.01, parts=1, w=4)
    used = sum(plan.elements * distance_to_uniform(deep.people, 2**plan.bits, plan.messages) for plan in deep.plans)
    assert (1 + math.exp(deep.epsilon)) * used <= deep.delta  # all rounds together
    assert compose([FEW.event], FEW.delta).epsilon <= FEW.epsilon
    assert "if shuffler and server collude, nothing is protected" in str(release_of(FEW).guarantee)


def release_of(protocol: SplitAndMix) -> hz.Release:
    return estimate_rounds(simulate_rounds(protocol, PLACES, randomness=hz.Simulation(1)))


# ── parties ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def batch_of(rounds: Rounds, people: list[Participant]) -> Batch:
    shuffler = Shuffler(rounds.study)
    for person in people:
        shuffler.accept(person.answer(rounds.study))
    return shuffler.mix()


def test_a_map_end_to_end() -> None:
    rounds = Rounds(FEW)
    people = [Participant(rounds.study, [place], randomness=hz.Simulation(k)) for k, place in enumerate(PLACES)]
    while not rounds.finished:
        rounds.open(batch_of(rounds, people))
    for paper in (True, False):
        release = estimate_rounds(rounds.levels, paper=paper)
        assert release.density.dense().values.sum() == pytest.approx(1)
        assert release.simulated  # one simulated device is enough: nobody may publish the map
    assert estimate_rounds(rounds.levels).estimate.knows_uncertainty
    with pytest.raises(InvalidInput, match="over"):
        _ = rounds.study


@pytest.mark.parametrize("ending", [".npz", ".geojson", ".parquet"])
def test_a_saved_map_can_be_loaded(ending: str, tmp_path: Path) -> None:
    release = estimate_rounds(simulate_rounds(FEW, PLACES))
    loaded = hz.load(release.save(tmp_path / f"map{ending}"))
    assert loaded.guarantee == release.guarantee
    assert loaded.density.dense().values == pytest.approx(release.density.dense().values)
    # Mixed shares without noise would cost nothing.
    parts = [part for part in flatten(FEW.event) if isinstance(part, MixedShares)]
    with pytest.raises(PromiseBroken, match="no noise"):
        _check_promise(release.guarantee, Composition(tuple(parts)))


def test_number_size_and_keys_of_messages_do_not_depend_on_places() -> None:
    """Nodes with nobody are sent like others, every message has its own key, and none holds two shares."""
    rounds = Rounds(FEW)
    seen, keys = set(), set()
    for places in ([PLACES[0]], PLACES, [(9.0, 9.0)]):
        one = Participant(rounds.study, places).answer(rounds.study)
        seen.add((len(one.sealed), len(one.to_bytes())))
        keys |= {message[:32] for message in one.sealed}
    assert len(seen) == 1
    assert len(keys) == 3 * Round.first(FEW).least_messages
    for protocol in (FEW, small_protocol()):  # in the small group every seventh share is 0
        asked = Round.first(protocol)
        noisy = asked.noisy(np.array([0]), np.array([protocol.parts]), hz.Simulation(1))
        messages = asked.split(noisy, hz.Simulation(2))
        np.testing.assert_array_equal(np.bincount(messages[:, 1]), [asked.plan.messages] * asked.elements)


def test_every_message_alone_is_uniform_in_the_group() -> None:
    asked, randomness = Round.first(small_protocol()), hz.Simulation(4)
    drawn = [asked.split(np.array([5, 0, 0, 0]), randomness).reshape(5, 4, 3)[:, 0, -1] for _ in range(3000)]
    for column in np.array(drawn).T:
        assert chi_square(np.bincount(column, minlength=7), np.full(7, 3000 / 7)) > 1e-6
    # Any four messages are independent of the value; only all five together add up to it.
    assert (np.array(drawn).sum(axis=1) % 7 == 5).all()


def test_colluders_do_not_count_as_people() -> None:
    rounds = Rounds(FEW, colluders=1)
    people = [Participant(rounds.study, [place]) for place in PLACES]
    with pytest.raises(PromiseBroken, match="at least 7"):
        batch_of(rounds, people)


def test_bad_batches_are_refused_and_the_round_stays_open() -> None:
    rounds = Rounds(FEW)
    batch = batch_of(rounds, [Participant(rounds.study, [place]) for place in PLACES])
    padded = dataclasses.replace(batch, sealed=batch.sealed + batch.sealed[: batch.size])
    for bad, error in (
        (padded, UnexpectedMessage),  # what a shuffler adds is no noise
        (dataclasses.replace(batch, people=5), PromiseBroken),
        (dataclasses.replace(batch, study=bytes(16)), UnexpectedMessage),
    ):
        with pytest.raises(error):
            rounds.open(bad)
    rounds.open(batch)
    with pytest.raises(UnexpectedMessage, match="the study"):
        rounds.open(batch)  # the next round is another study


def test_messages_that_nobody_sends_are_refused() -> None:
    asked = Round.first(FEW)
    messages, _ = asked.draw(np.zeros(6, np.int64), hz.Simulation(1))
    too_large = messages.copy()
    too_large[0, 2:] = 255
    moved = messages.copy()
    moved[0, 1] = 1 - moved[0, 1] if asked.elements > 1 else 1
    for bad in (too_large, moved):
        with pytest.raises(InvalidInput, match="Nothing was decoded"):
            asked.decode(bad, 6)
    with pytest.raises(UnexpectedMessage, match="at most 7, whose sums fit"):
        asked.decode(messages, FEW.most + 1)


def test_a_device_answers_each_round_once_and_only_what_was_planned() -> None:
    rounds, other = Rounds(FEW), Rounds(FEW)
    one = Participant(rounds.study, [PLACES[0]])
    one.answer(rounds.study)
    with pytest.raises(InvalidInput, match="answers round 1 next"):
        one.answer(rounds.study)
    with pytest.raises(InvalidInput, match="another protocol or server"):
        one.answer(other.study)
    for nodes in (tuple(range(17)), (1, 1), (-1,), (16,), ()):
        with pytest.raises(InvalidInput):
            Round(FEW, 1, nodes)


def test_all_rounds_are_paid_once_and_a_second_survey_again(tmp_path: Path) -> None:
    ledger = hz.Ledger.open(tmp_path / "own.ledger", total=9, delta=0.9)
    cheap = SplitAndMix(GRID, 4, people=6, delta=0.01, parts=1, w=4)
    rounds = Rounds(cheap)
    one = Participant(rounds.study, [PLACES[0]], ledger=ledger)
    spent = ledger.spent
    assert spent == pytest.approx(4, rel=1e-6)
    one.answer(rounds.study)
    assert ledger.spent == spent
    with pytest.raises(AlreadyCharged):
        Participant(rounds.study, [PLACES[1]], ledger=ledger)
    Participant(Rounds(cheap).study, [PLACES[0]], ledger=ledger)
    assert ledger.spent == 2 * spent


def test_a_batch_of_more_people_than_fit_is_refused_before_anything_is_opened() -> None:
    """Such a batch could not be decoded, and its people have paid and do not answer again."""
    with pytest.raises(InvalidInput, match="needs 8 people, 2 colluders among them, and sums of more than 7 do not"):
        Rounds(FEW, colluders=2)
    rounds = Rounds(FEW)
    shuffler = Shuffler(rounds.study)
    for _ in range(FEW.most):
        shuffler.accept(Participant(rounds.study, [PLACES[0]]).answer(rounds.study))
    with pytest.raises(UnexpectedMessage, match="at most 7 in a batch"):
        shuffler.accept(Participant(rounds.study, [PLACES[0]]).answer(rounds.study))
    batch = shuffler.mix()
    crowd = dataclasses.replace(batch, people=8, sealed=batch.sealed + batch.sealed[: len(batch.sealed) // 7])
    with pytest.raises(UnexpectedMessage, match="whose sums fit"):
        rounds.open(crowd)
    rounds.open(batch)
    with pytest.raises(UnexpectedMessage, match="messages of 8 people"):
        simulate_rounds(FEW, PLACES[:1] * 8)


@pytest.mark.parametrize("factor", [1, 3, 10])
def test_the_noise_of_a_larger_batch_fits_its_interval(factor: int) -> None:
    """A batch of N people has the noise of N / people discrete Laplace draws, which is wider than one draw."""
    people, parts = 40, 2
    protocol = SplitAndMix(GRID, 1, people=people, delta=0.01, parts=parts, w=4, most=factor * people)
    for plan in protocol.plans:
        noise = noise_share(plan.scale, Fraction(factor), 200_000, hz.Simulation(1))
        above = plan.modulus - plan.below - 1 - parts * protocol.most
        allowed = 200_000 * 1e-3 / (2 * len(protocol.plans))  # of the mean, for all nodes of the level together
        assert (noise < -plan.below).sum() * plan.nodes <= allowed + 6 * np.sqrt(allowed * plan.nodes)
        assert (noise > above).sum() <= allowed + 6 * np.sqrt(allowed)


def test_rounds_with_fewer_people_count_as_much_as_the_first() -> None:
    """People drop out between rounds; their counts are scaled, so that children add up to their parents."""
    protocol = SplitAndMix(GRID, 9, people=100, delta=0.01, parts=1)
    found = simulate_rounds(protocol, PLACES[:4] * 25, randomness=hz.Simulation(4))
    half = dataclasses.replace(
        found,
        sums=tuple(sums * 2 // (1 + (k == 0)) for k, sums in enumerate(found.sums)),
        people=tuple(people * 2 // (1 + (k == 0)) for k, people in enumerate(found.people)),
    )
    for paper in (True, False):
        same, scaled = (estimate_rounds(one, paper=paper).density.dense().values for one in (found, half))
        assert scaled == pytest.approx(same, abs=1e-9 if paper else 0.02)


def test_the_posterior_knows_that_more_people_add_more_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    scales = []

    def seen(counts: NoisyCounts) -> Estimate:
        scales.append(counts.scales[-1])
        return infer(counts)

    infer = Estimate.infer
    monkeypatch.setattr(Estimate, "infer", seen)
    for people in (100, 400):
        protocol = SplitAndMix(GRID, 2, people=100, delta=0.01, parts=1, most=400)
        estimate_rounds(simulate_rounds(protocol, PLACES[:4] * (people // 4), randomness=hz.Simulation(4)))
    assert scales[1] == 2 * scales[0]


def test_a_protocol_with_ten_colluders_is_not_one_with_one(tmp_path: Path) -> None:
    ledger = hz.Ledger.open(tmp_path / "own.ledger", total=9, delta=0.9)
    cheap = SplitAndMix(GRID, 4, people=6, delta=0.01, parts=1, w=4, most=20)
    for colluders in (10, 1):
        Participant(Rounds(cheap, colluders=colluders, key=bytes(range(32))).study, [PLACES[0]], ledger=ledger)
    assert len(ledger.entries()) == 2


def test_wrong_arguments_are_refused() -> None:
    for call in (
        lambda: SplitAndMix(GRID, 1, people=1),
        lambda: SplitAndMix(GRID, 1, people=100, gamma=0.0),
        lambda: SplitAndMix(GRID, 1, people=100, gamma="a"),  # type: ignore[arg-type]
        lambda: SplitAndMix(GRID, 1, people=100, parts=2**20, most=2**40),  # sums beyond 64 bits
        lambda: simulate(FEW, PLACES),  # type: ignore[arg-type]
        lambda: SplitAndMix(GRID, 1, people=100, most=99),
        lambda: simulate_rounds(FEW, PLACES, [0.5] * 6),
        lambda: Participant(Rounds(FEW).study, [(math.nan, 0.0)]),
    ):
        with pytest.raises(InvalidInput):
            call()
    with pytest.raises(PromiseBroken):
        simulate_rounds(FEW, PLACES[:5])


def test_more_people_keep_more_nodes() -> None:
    """The number follows from the number of people, which is public, and is the paper's for few people."""
    assert [SplitAndMix(GRID, 4, people).w for people in (50, 10_000, 20_000, 100_000, 10**6)] == [20, 20, 40, 200, 256]
    assert SplitAndMix(GRID, 4, 100_000, w=20).w == 20


def test_what_it_costs() -> None:
    """Figure 12 of the paper: 320 × 240 with 50 people, all nodes at once and in rounds."""
    grid = hz.Grid.plane(x=(0, 320), y=(0, 240), shape=(240, 320))
    few = SplitAndMix(grid, 5, people=50, delta=1e-5)
    payload, sealed = few.dense_payload
    assert 6.5e6 < payload < 7.5e6
    assert 80e6 < sealed < 90e6
    assert few.bytes_per_person <= 150_000
    assert SplitAndMix(grid, 5, people=10**4, delta=1e-5).bytes_per_person <= 100_000
