"""What happened to the data, told so completely that a stranger can price it.

A mechanism describes itself as an event; :func:`price` is the accountant. Pure ε adds up in exact rationals; whatever
has a δ goes through Google's dp-accounting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
class Composition:
    """Several events on the same data."""

    events: tuple[Event, ...]


Event = DiscreteLaplace | DiscreteGaussian | Composition


def flatten(event: Event) -> list[DiscreteLaplace | DiscreteGaussian]:
    """The elementary events inside an event."""
    if isinstance(event, Composition):
        return [part for inner in event.events for part in flatten(inner)]
    return [event]


def price(events: Sequence[Event], delta: Fraction = Fraction(0)) -> Loss:
    """The loss of all events together, at the given δ.

    >>> price([DiscreteLaplace(1, Fraction(2)), DiscreteLaplace(1, Fraction(4))])
    Loss(epsilon=Fraction(3, 4), delta=Fraction(0, 1))
    """
    parts = [part for event in events for part in flatten(event)]
    laplace = [part for part in parts if isinstance(part, DiscreteLaplace)]
    gaussian = [part for part in parts if isinstance(part, DiscreteGaussian)]
    pure = sum((part.epsilon for part in laplace), Fraction(0))
    if not gaussian:
        return Loss(pure)
    if delta <= 0:
        raise InvalidInput("Gaussian noise has no pure epsilon; give the ledger a delta, for example 1e-6.")
    # Gaussian events add up as ρ and are converted once at δ; the pure part adds to that, so a pure charge always costs
    # what it declares. In Rényi terms: at every order α the loss is at most ρα + Σ ε, whatever was chosen in view of
    # what.
    rho = sum((part.rho for part in gaussian), Fraction(0))
    return Loss(_epsilon_of_zcdp(rho, delta) + pure, delta)


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
    return {"kind": "composition", "events": [describe(part) for part in event.events]}


def undescribe(fields: dict[str, Any]) -> Event:
    """Undo :func:`describe`."""
    if fields["kind"] == "discrete-laplace":
        return DiscreteLaplace(int(fields["sensitivity"]), Fraction(fields["scale"]))
    if fields["kind"] == "discrete-gaussian":
        return DiscreteGaussian(int(fields["sensitivity"]), Fraction(fields["sigma"]))
    if fields["kind"] == "composition":
        return Composition(tuple(undescribe(part) for part in fields["events"]))
    raise InvalidInput(f"Nobody knows the event {fields['kind']!r}; it may come from a newer version.")
