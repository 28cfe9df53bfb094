"""What happened to the data, told so completely that a stranger can price it.

A mechanism describes itself as an event; :func:`price` is the accountant. Pure ε adds up in exact rationals; whatever
has a δ goes through Google's dp-accounting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.loss import Loss


@dataclass(frozen=True)
class DiscreteLaplace:
    """Independent noise with Pr[x] ∝ exp(−|x|/scale) on integers of ℓ1 sensitivity ``sensitivity``."""

    sensitivity: int
    scale: Fraction

    @property
    def epsilon(self) -> Fraction:
        """ε = sensitivity / scale, exactly (Ghosh, Roughgarden, Sundararajan 2009)."""
        if self.scale <= 0:
            raise PromiseBroken("An event without noise has no finite price.")
        return self.sensitivity / self.scale


@dataclass(frozen=True)
class DiscreteGaussian:
    """Independent noise with Pr[x] ∝ exp(−x²/2σ²) on integers of ℓ2 sensitivity ``sensitivity``."""

    sensitivity: int
    sigma: Fraction

    @property
    def rho(self) -> Fraction:
        """ρ of zero-concentrated privacy, sensitivity² / 2σ² (Canonne, Kamath, Steinke 2020, Theorem 4)."""
        if self.sigma <= 0:
            raise PromiseBroken("An event without noise has no finite price.")
        return Fraction(self.sensitivity**2) / (2 * self.sigma**2)


@dataclass(frozen=True)
class FineGaussian:
    """Discrete Gaussian noise on ``numbers`` integers of joint ℓ2 sensitivity ``sensitivity``, σ at least 2^16.

    So fine that it is as good as continuous noise, which costs less than ρ tells (Balle and Wang 2018). Why that may be
    said of the discrete one, and what it adds: ``mechanisms/sensors/readings.md``.
    """

    sensitivity: int
    sigma: int
    numbers: int

    def __post_init__(self) -> None:
        if self.sigma < 2**16:
            raise PromiseBroken(f"Fine Gaussian noise has σ = {self.sigma} steps; it needs at least {2**16}.")

    @property
    def rho(self) -> Fraction:
        """ρ of zero-concentrated privacy, as of any discrete Gaussian."""
        return Fraction(self.sensitivity**2, 2 * self.sigma**2)


@dataclass(frozen=True)
class LaplaceOnPaths:
    """Discrete Laplace counts of tree nodes chosen in view of earlier ones, every root-to-leaf path spending ≤ ε.

    The mass of one unit, at most ``sensitivity``, is a mixture of paths: Σ_v ε_v m_v = Σ_leaf m_leaf Σ_{v above} ε_v,
    so what the paths spend bounds what the whole tree spends, whatever tree the noise led to.
    """

    sensitivity: int
    epsilon: Fraction


@dataclass(frozen=True)
class BiasedSplits:
    """A tree grown by splitting each node whose biased count plus discrete Laplace noise is above a threshold θ.

    At depth d a node of mass c is split when max(c − d·bias, θ − bias) + X > θ, X of scale ``scale``; all are integers.
    What comes out is the shape of the tree alone, and a unit of mass at most ``sensitivity`` pays once for all depths:

        ε = sensitivity / scale · (1 + 1 / (1 − exp(−bias / scale)))

    (Zhang, Xiao, Xie 2016, Theorem 3.1; for units spread over cells and discrete noise see ``priv_tree.md``).
    """

    sensitivity: int
    scale: Fraction
    bias: int

    @property
    def epsilon(self) -> Fraction:
        """The formula above, with exp(−bias / scale) rounded up to a multiple of 2^−60."""
        if self.scale <= 0 or self.bias <= 0:
            raise PromiseBroken("A tree grown without noise or without bias has no finite price.")
        decay = _exp_of_minus(self.bias / self.scale)
        if decay >= 1:
            raise PromiseBroken("The bias of the tree is too small beside its noise; its price is not finite.")
        return self.sensitivity / self.scale * (1 + 1 / (1 - decay))


def _exp_of_minus(exponent: Fraction) -> Fraction:
    """exp(−exponent), rounded up to a multiple of 2^−60; the same on every machine, which floats are not.

    >>> float(_exp_of_minus(Fraction(0))), round(float(_exp_of_minus(Fraction(1))), 12)
    (1.0, 0.367879441171)
    """
    if exponent > 42:  # exp(−42) < 2^−60
        return Fraction(1, 2**60)
    with localcontext(Context(prec=40, rounding=ROUND_FLOOR, traps=[])):
        # The quotient is rounded down and decimal's exp is good to half a unit of the 40th digit: 1e-38 covers both.
        power = (-(Decimal(exponent.numerator) / Decimal(exponent.denominator))).exp()
        return min(Fraction(1), Fraction(math.ceil((Fraction(power) + Fraction(1, 10**38)) * 2**60), 2**60))


@dataclass(frozen=True)
class RandomizedReport:
    """One report drawn on a device, whose probability differs by a factor of at most e^ε between any two positions.

    For a geo-indistinguishable mechanism ε is a price for each metre between them; the guarantee's adjacency says so.
    """

    epsilon: Fraction


@dataclass(frozen=True)
class NoiseShares:
    """A sum to which every device added the difference of two Pólya numbers a coordinate, β = exp(−1/scale).

    ``shape`` is the sum of the shapes of all shares that the adversary does not know. From 1 on the noise is discrete
    Laplace plus something independent, and costs ε = sensitivity / scale; below 1 it costs more than it should
    (errata E3-1), so such a sum has no price and must never have been opened.
    """

    sensitivity: int
    scale: Fraction
    shape: Fraction

    @property
    def epsilon(self) -> Fraction:
        """ε = sensitivity / scale."""
        if self.scale <= 0:
            raise PromiseBroken("An event without noise has no finite price.")
        if self.shape < 1:
            raise PromiseBroken(
                f"The noise of a sum has shape {float(self.shape):.4g} and must have at least 1; too few devices added "
                "their share, so the sum must not be opened."
            )
        return self.sensitivity / self.scale


@dataclass(frozen=True)
class PureSteps:
    """``steps`` small pure steps, each chosen in view of those before, accounted as zero-concentrated privacy.

    Taken one by one they would add up to steps · ε; together they cost far less, and a δ. Where every step is of
    *bounded range* (the odds of any two of its outcomes change by a factor of at most e^ε, as those of the exponential
    mechanism and of a logistic coin do), it costs a quarter of what any other step with a pure ε costs:

        ρ = steps · ε² / 8   of bounded range (Dong, Durfee, Rogers 2020; Cesar and Rogers 2021, Lemma 3.2)
        ρ = steps · ε² / 2   else             (Bun and Steinke 2016, Proposition 1.4)

    ``missed`` is the chance that something goes amiss on which all this rests. δ then has to hold (1 + e^ε) times that
    as well, ε being the loss of all events together.
    """

    epsilon: Fraction
    steps: int
    bounded_range: bool
    missed: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or self.steps < 0 or not 0 <= self.missed < 1:
            raise PromiseBroken(
                f"There are {self.steps} pure steps of ε = {self.epsilon} that miss {self.missed}; expected none or "
                "more, a positive ε, and less than 1 missed."
            )

    @property
    def rho(self) -> Fraction:
        """ρ of zero-concentrated privacy, the formula above."""
        return self.steps * self.epsilon**2 / (8 if self.bounded_range else 2)


@dataclass(frozen=True)
class Composition:
    """Several events on the same data."""

    events: tuple[Event, ...]


Gaussian = DiscreteGaussian | FineGaussian
Pure = DiscreteLaplace | LaplaceOnPaths | BiasedSplits | RandomizedReport | NoiseShares
Concentrated = Gaussian | PureSteps
Elementary = Concentrated | Pure
Event = Elementary | Composition


def flatten(event: Event) -> list[Elementary]:
    """The elementary events inside an event."""
    if isinstance(event, Composition):
        return [part for inner in event.events for part in flatten(inner)]
    return [event]


def is_gaussian(event: Event) -> bool:
    """Does the event cost a δ? Gaussian noise does, and so do many small steps accounted together."""
    return any(isinstance(part, Concentrated) for part in flatten(event))


def price(events: Sequence[Event], delta: Fraction = Fraction(0)) -> Loss:
    """The loss of all events together, at the given δ.

    >>> price([DiscreteLaplace(1, Fraction(2)), DiscreteLaplace(1, Fraction(4))])
    Loss(epsilon=Fraction(3, 4), delta=Fraction(0, 1))
    """
    parts = [part for event in events for part in flatten(event)]
    concentrated = [part for part in parts if isinstance(part, Concentrated)]
    pure = sum((part.epsilon for part in parts if not isinstance(part, Concentrated)), Fraction(0))
    if not concentrated:
        return Loss(pure)
    if delta <= 0:
        raise InvalidInput("Gaussian noise has no pure epsilon; give the ledger a delta, for example 1e-6.")
    # Concentrated events add up as ρ and are converted once at δ; the pure part adds to that, so a pure charge always
    # costs what it declares. In Rényi terms: at every order α the loss is at most ρα + Σ ε, whatever was chosen in view
    # of what.
    rho = sum((part.rho for part in concentrated), Fraction(0))
    missed = sum((part.missed for part in concentrated if isinstance(part, PureSteps)), Fraction(0))
    epsilon = _epsilon_of_zcdp(rho, delta) if not missed else _epsilon_with_missed(rho, delta, missed, pure)
    fine = [part for part in concentrated if isinstance(part, FineGaussian)]
    if len(fine) == len(concentrated):
        epsilon = min(epsilon, _epsilon_of_fine(fine, rho, delta))
    return Loss(epsilon + pure, delta)


def _epsilon_with_missed(rho: Fraction, delta: Fraction, missed: Fraction, pure: Fraction) -> Fraction:
    """ε of ρ where δ also holds (1 + e^ε) · missed: the ε that is declared decides what is left of δ to convert at."""
    epsilon = _epsilon_of_zcdp(rho, delta)
    while True:
        loss = float(epsilon + pure)
        left = float(delta) - float(missed) * (1 + math.exp(min(loss, 700.0))) * (1 + 1e-9)
        if left <= 0 or loss > 700:
            raise InvalidInput(
                f"Something goes amiss with a chance of {float(missed):.3g}, which at this loss is more than the delta "
                f"of {float(delta):.3g} holds; give a larger delta, or charge another ledger."
            )
        needed = _epsilon_of_zcdp(rho, Fraction(left))
        if needed <= epsilon:
            return epsilon
        epsilon = needed * Fraction(1000001, 1000000)


def _epsilon_of_fine(fine: Sequence[FineGaussian], rho: Fraction, delta: Fraction) -> Fraction:
    """ε of continuous noise, and what the integers may add: Gaussian mechanisms compose to one with μ² = Σ μ² = 2ρ."""
    import numpy as np
    from dp_accounting import get_epsilon_gaussian

    numbers, sigma = sum(part.numbers for part in fine), min(part.sigma for part in fine)
    mu = math.sqrt(2 * rho)
    # Outside a ball of √B standard deviations less than 2^−99 of the noise lies.
    radius = math.sqrt(2 * math.log(2) * (numbers + 200 * len(fine))) + mu
    more = numbers / (23 * sigma**2) + radius**2 / (8 * sigma**2) + 1e-15
    less = float(delta) * math.exp(-numbers / (23 * sigma**2)) - len(fine) * 2.0**-99
    if less <= 0 or mu < 2.0**-12:  # smaller, the formula is a difference of equal floats
        return _epsilon_of_zcdp(rho, delta)
    with np.errstate(divide="ignore"):  # far from the solution δ is zero, and its logarithm infinite
        epsilon = get_epsilon_gaussian(1 / mu, less * (1 - 1e-9))
    return Fraction((epsilon + more) * (1 + 1e-9))


def _epsilon_of_zcdp(rho: Fraction, delta: Fraction) -> Fraction:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    accountant.compose(dp_event.ZCDpEvent(float(rho) * (1 + 1e-12)))
    # Rounded up: the accountant computes in floats.
    return Fraction(float(accountant.get_epsilon(float(delta))) * (1 + 1e-9))


def describe(event: Event) -> dict[str, Any]:
    """The event as plain numbers and texts, for ledgers and releases."""
    if isinstance(event, DiscreteLaplace):
        return {"kind": "discrete-laplace", "sensitivity": event.sensitivity, "scale": str(event.scale)}
    if isinstance(event, DiscreteGaussian):
        return {"kind": "discrete-gaussian", "sensitivity": event.sensitivity, "sigma": str(event.sigma)}
    if isinstance(event, FineGaussian):
        numbers = {"sensitivity": event.sensitivity, "sigma": event.sigma, "numbers": event.numbers}
        return {"kind": "fine-gaussian", **numbers}
    if isinstance(event, LaplaceOnPaths):
        return {"kind": "laplace-on-paths", "sensitivity": event.sensitivity, "epsilon": str(event.epsilon)}
    if isinstance(event, BiasedSplits):
        fields = {"sensitivity": event.sensitivity, "scale": str(event.scale), "bias": event.bias}
        return {"kind": "biased-splits", **fields}
    if isinstance(event, RandomizedReport):
        return {"kind": "randomized-report", "epsilon": str(event.epsilon)}
    if isinstance(event, NoiseShares):
        fields = {"sensitivity": event.sensitivity, "scale": str(event.scale), "shape": str(event.shape)}
        return {"kind": "noise-shares", **fields}
    if isinstance(event, PureSteps):
        steps = {"epsilon": str(event.epsilon), "steps": event.steps, "bounded_range": event.bounded_range}
        return {"kind": "pure-steps", **steps, "missed": str(event.missed)}
    return {"kind": "composition", "events": [describe(part) for part in event.events]}


def undescribe(fields: dict[str, Any]) -> Event:
    """Undo :func:`describe`."""
    if fields["kind"] == "discrete-laplace":
        return DiscreteLaplace(int(fields["sensitivity"]), Fraction(fields["scale"]))
    if fields["kind"] == "discrete-gaussian":
        return DiscreteGaussian(int(fields["sensitivity"]), Fraction(fields["sigma"]))
    if fields["kind"] == "fine-gaussian":
        return FineGaussian(int(fields["sensitivity"]), int(fields["sigma"]), int(fields["numbers"]))
    if fields["kind"] == "laplace-on-paths":
        return LaplaceOnPaths(int(fields["sensitivity"]), Fraction(fields["epsilon"]))
    if fields["kind"] == "biased-splits":
        return BiasedSplits(int(fields["sensitivity"]), Fraction(fields["scale"]), int(fields["bias"]))
    if fields["kind"] == "randomized-report":
        return RandomizedReport(Fraction(fields["epsilon"]))
    if fields["kind"] == "noise-shares":
        return NoiseShares(int(fields["sensitivity"]), Fraction(fields["scale"]), Fraction(fields["shape"]))
    if fields["kind"] == "pure-steps":
        steps, bounded_range = int(fields["steps"]), bool(fields["bounded_range"])
        return PureSteps(Fraction(fields["epsilon"]), steps, bounded_range, Fraction(fields["missed"]))
    if fields["kind"] == "composition":
        return Composition(tuple(undescribe(part) for part in fields["events"]))
    raise InvalidInput(f"Nobody knows the event {fields['kind']!r}; it may come from a newer version.")
