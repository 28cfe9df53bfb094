"""What a mechanism returns: the posterior is inferred once, and left out where an estimate is sent elsewhere."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import heathaze as hz
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.ingest.counts import Counts
from heathaze.privacy.guarantee import Unit

GRID = Grid.plane(x=(0, 1), y=(0, 1), size=4)


def test_publishing_and_asking_infer_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from heathaze.inference._beliefs import Beliefs

    inferred = []
    infer = Beliefs.infer
    monkeypatch.setattr(Beliefs, "infer", lambda noisy: inferred.append(noisy) or infer(noisy))
    counts = Counts(
        GRID, np.arange(16), np.full(16, 50 << 20), one=1 << 20, bound=1 << 20, unit=Unit.PERSON, weight="share"
    )
    release = hz.publish(hz.central.default(GRID, epsilon=1), counts, randomness=hz.Simulation(1))
    assert release.uncertainty.max() > 0
    assert release.hotspots() == []
    assert len(inferred) == 1


def test_the_posterior_that_is_kept_is_the_one_that_would_be_inferred() -> None:
    noisy = NoisyCounts(GRID, [0, 1, 1, 1, 1], [0, 0, 1, 2, 3], [100, 61, 22, 12, -2], [5, 1, 1, 1, 1])
    kept = Estimate.infer(noisy)
    again = Estimate(kept.density, kept.total, noisy)
    assert np.array_equal(kept.posterior.deviations(), again.posterior.deviations())
    assert np.array_equal(kept.density.dense().values, again.posterior.density.dense().values)


def test_a_pickled_estimate_leaves_its_posterior_behind() -> None:
    noisy = NoisyCounts(GRID, [0, 1, 1, 1, 1], [0, 0, 1, 2, 3], [100, 61, 22, 12, -2], [5, 1, 1, 1, 1])
    estimate = Estimate.infer(noisy)
    back = pickle.loads(pickle.dumps(estimate))
    assert "posterior" in vars(estimate)
    assert "posterior" not in vars(back)
    assert np.array_equal(back.posterior.deviations(), estimate.posterior.deviations())


def test_an_estimate_without_noisy_counts_says_so() -> None:
    estimate = Estimate(Density.uniform(GRID), 10.0)
    assert not estimate.knows_uncertainty
    with pytest.raises(InvalidInput, match="has no error bars"):
        _ = estimate.posterior
