"""The accountant: computes the privacy loss of several events together.

The ε of pure events add up in exact rationals. Losses with a δ are computed by Google's dp-accounting library.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

from heathaze.errors import InvalidInput
from heathaze.privacy.decoy_loss import epsilon_of_decoys
from heathaze.privacy.events import (
    ClonedReports,
    Concentrated,
    DecoyCounts,
    Elementary,
    Event,
    FineGaussian,
    LocalReports,
    MixedShares,
    PureSteps,
    Shuffled,
    flatten,
)
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.shuffling import Blanket
from heathaze.privacy.split_and_mix_loss import distance_to_uniform


def compose(events: Sequence[Event], delta: Fraction = Fraction(0)) -> PrivacyLoss:
    """Compute the privacy loss of all events together.

    Events with shuffled messages must all be fixed before the first of them, as the levels of a tree are. If a study is
    chosen in view of an earlier one, their ε and δ add up; a ledger adds them.

    Args:
        events: The events on the same data.
        delta: The δ at which Gaussian noise, :class:`PureSteps` and shuffled messages are accounted, above 0 and below
            1. It is ignored if all events are pure.

    Returns:
        The exact loss (ε, 0) if all events are pure; otherwise (ε, delta), with ε rounded up.

    Raises:
        InvalidInput: The events need a δ and ``delta`` is 0, δ is too small for the failure probability of the events,
            or the numbers of the events are beyond the range of floats.
        PromiseBroken: An event has an infinite privacy loss, for example because it has no noise.

    >>> from heathaze.privacy.events import DiscreteLaplace
    >>> compose([DiscreteLaplace(1, Fraction(2)), DiscreteLaplace(1, Fraction(4))])
    PrivacyLoss(epsilon=Fraction(3, 4), delta=Fraction(0, 1))
    """
    try:
        return _compose([part for event in events for part in flatten(event)], delta)
    except OverflowError:
        raise InvalidInput(
            "The privacy loss of these events cannot be computed, because their numbers are beyond the range of "
            "floats; give sensitivities, noise and steps of a usual size."
        ) from None


def _compose(parts: Sequence[Elementary], delta: Fraction) -> PrivacyLoss:
    shares = [part for part in parts if isinstance(part, MixedShares)]
    if not shares:
        return _without_shares(parts, delta)
    if delta <= 0:
        raise InvalidInput("Mixed shares have no pure epsilon; give the ledger a delta, for example 1e-6.")
    # The messages differ from uniform ones with probability at most ``failure``, whatever the other events are. This
    # uses (1 + e^ε) · failure of δ, where ε is the loss of all events. Other events that need a δ get half of δ.
    failure = sum(part.elements * distance_to_uniform(part.people, 2**part.bits, part.messages) for part in shares)
    others = [part for part in parts if not isinstance(part, MixedShares)]
    theirs = delta / 2 if any(isinstance(part, Concentrated | Shuffled) for part in others) else Fraction(0)
    epsilon = _without_shares(others, theirs).epsilon
    if epsilon > 700 or failure * (1 + math.exp(epsilon)) * (1 + 1e-9) > delta - theirs:
        raise InvalidInput(
            f"Mixed shares differ from uniform messages with a probability of {failure:.3g}, which at this privacy "
            f"loss needs more than the delta of {float(delta):.3g}; give a larger delta, or more messages."
        )
    return PrivacyLoss(epsilon, delta)


def _without_shares(parts: Sequence[Elementary], delta: Fraction) -> PrivacyLoss:
    concentrated = [part for part in parts if isinstance(part, Concentrated)]
    decoys = [part for part in parts if isinstance(part, DecoyCounts)]
    reports = [part for part in parts if isinstance(part, LocalReports)]
    pure = sum((part.epsilon for part in parts if not isinstance(part, Concentrated | Shuffled)), Fraction(0))
    if not concentrated and not decoys and not reports:
        return PrivacyLoss(pure)
    if delta <= 0:
        raise InvalidInput("This noise has no pure epsilon; give the ledger a delta, for example 1e-6.")
    if not decoys and not reports:
        return PrivacyLoss(_epsilon_of_concentrated(concentrated, delta, pure) + pure, delta)
    # All decoys are composed together. Decoys, reports and Gaussian noise share δ, and their ε add up.
    part = delta / (bool(decoys) + len(reports) + bool(concentrated))
    losses = [_epsilon_of_concentrated(concentrated, part, pure)] if concentrated else []
    losses += [_epsilon_of_decoys(tuple(decoys), part)] if decoys else []
    losses += [_epsilon_of_reports(event, part) for event in reports]
    return PrivacyLoss(sum(losses, pure), delta)


# Every device of a study pays for the same event, so the results of both functions are cached.
@functools.lru_cache(maxsize=256)
def _epsilon_of_decoys(levels: tuple[DecoyCounts, ...], delta: Fraction) -> Fraction:
    return Fraction(epsilon_of_decoys(levels, float(delta)))


@functools.lru_cache(maxsize=256)
def _epsilon_of_reports(event: LocalReports, delta: Fraction) -> Fraction:
    # Mixing is post-processing, so the mixed reports are never less private than one report.
    return Fraction(min(blanket_of(event).epsilon(event.people, float(delta)), event.alone))


def blanket_of(event: LocalReports) -> Blanket:
    """The privacy blanket of mixed reports: from the weights of one report if they are known, else from its ε."""
    import numpy as np

    if isinstance(event, ClonedReports):
        return Blanket.clones(event.alone)
    weights = np.array([weight / event.weights[0] for weight in event.weights]) * (1 + 1e-15)
    return Blanket.of_weights(weights, np.array(event.counts, dtype=np.float64))


def _epsilon_of_concentrated(concentrated: Sequence[Concentrated], delta: Fraction, pure: Fraction) -> Fraction:
    # The ρ of concentrated events add up, and their sum is converted to an ε at δ. The ε of the pure events is added to
    # that ε, so a pure charge always costs the ε that it declares. This is valid because at every order α the Rényi
    # loss is at most ρα + Σ ε, also if later events are chosen in view of earlier outcomes.
    rho = sum((part.rho for part in concentrated), Fraction(0))
    failure = sum((part.failure_probability for part in concentrated if isinstance(part, PureSteps)), Fraction(0))
    epsilon = _epsilon_of_zcdp(rho, delta) if not failure else _epsilon_with_failures(rho, delta, failure, pure)
    fine = [part for part in concentrated if isinstance(part, FineGaussian)]
    if len(fine) == len(concentrated):
        epsilon = min(epsilon, _epsilon_of_fine(fine, rho, delta))
    return epsilon


def _epsilon_of_zcdp(rho: Fraction, delta: Fraction) -> Fraction:
    """Convert ρ-zero-concentrated differential privacy to the ε at a given δ, rounded up."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    accountant.compose(dp_event.ZCDpEvent(float(rho) * (1 + 1e-12)))
    # Rounded up: the accountant computes in floats.
    return Fraction(float(accountant.get_epsilon(float(delta))) * (1 + 1e-9))


def _epsilon_with_failures(rho: Fraction, delta: Fraction, failure: Fraction, pure: Fraction) -> Fraction:
    """Convert ρ to an ε if δ must also cover the failure probability of the events.

    The failures use (1 + e^ε) · failure of δ, where ε is the loss of all events, pure ones included. Only the rest of δ
    is left to convert ρ. A larger ε leaves a smaller rest, so ε is raised until it is enough.
    """
    epsilon = _epsilon_of_zcdp(rho, delta)
    while True:
        loss = float(epsilon + pure)
        left = float(delta) - float(failure) * (1 + math.exp(min(loss, 700.0))) * (1 + 1e-9)
        if left <= 0 or loss > 700:
            raise InvalidInput(
                f"The events have a failure probability of {float(failure):.3g}, which at this privacy loss needs more "
                f"than the delta of {float(delta):.3g}; give a larger delta, or charge another ledger."
            )
        needed = _epsilon_of_zcdp(rho, Fraction(left))
        if needed <= epsilon:
            return epsilon
        epsilon = needed * Fraction(1000001, 1000000)


def _epsilon_of_fine(fine: Sequence[FineGaussian], rho: Fraction, delta: Fraction) -> Fraction:
    """Compute the ε of several fine Gaussian events at δ.

    The ε is that of continuous Gaussian noise, plus a bound on what the rounding to integers adds. Gaussian mechanisms
    of sensitivity/σ = μ_i compose to one Gaussian mechanism with μ² = Σ μ_i² = 2ρ.
    """
    import numpy as np
    from dp_accounting import get_epsilon_gaussian

    numbers, sigma = sum(part.numbers for part in fine), min(part.sigma for part in fine)
    mu = math.sqrt(2 * rho)
    # The noise lies outside a ball of ``radius`` − μ standard deviations with probability below 2^−99.
    radius = math.sqrt(2 * math.log(2) * (numbers + 200 * len(fine))) + mu
    more = numbers / (23 * sigma**2) + radius**2 / (8 * sigma**2) + 1e-15
    less = float(delta) * math.exp(-numbers / (23 * sigma**2)) - len(fine) * 2.0**-99
    if less <= 0 or mu < 2.0**-12:  # for a smaller μ the formula would subtract nearly equal floats
        return _epsilon_of_zcdp(rho, delta)
    with np.errstate(divide="ignore"):  # far from the solution δ is 0 and its logarithm infinite
        epsilon = get_epsilon_gaussian(1 / mu, less * (1 - 1e-9))
    return Fraction((epsilon + more) * (1 + 1e-9))
