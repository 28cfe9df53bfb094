"""What happened to the data, told so completely that a stranger can price it.

A mechanism describes itself as an event; :func:`heathaze.privacy.accountant.compose` adds events up.

Every event checks its own numbers when it is made, by a mechanism or from a file: a loss of −5 beside one of 5 would
otherwise be priced at zero. Noise of scale 0 can be written down, for checks of the plumbing, and has no price.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from heathaze.errors import InvalidInput, PromiseBroken, expect

_LENGTHS = ("metre", "unit of length")


def _whole(event: Event, name: str, *, least: int = 1) -> None:
    """Refuse a field that is not a whole number or is too small; True and 1.0 are not whole numbers."""
    value = getattr(event, name)
    if type(value) is not int or value < least:
        raise InvalidInput(
            f"{name} of {type(event).__name__} is {_shown(value)}; expected a whole number, {least} or larger."
        )


def _rational(event: Event, name: str, *, zero: bool = False) -> None:
    """Refuse a field that is not an exact fraction or is negative (or zero, unless allowed); ints become fractions."""
    value = getattr(event, name)
    if type(value) is int:
        value = Fraction(value)
        object.__setattr__(event, name, value)
    if type(value) is not Fraction or value < 0 or (value == 0 and not zero):
        wanted = "0 or larger" if zero else "above 0"
        raise InvalidInput(f"{name} of {type(event).__name__} is {_shown(value)}; expected an exact fraction {wanted}.")


def _shown(value: object) -> str:
    """A value for a sentence: short, whatever a file holds."""
    return f"{str(value) if isinstance(value, Fraction) else repr(value):.40}"


@dataclass(frozen=True)
class DiscreteLaplace:
    """Independent noise with Pr[x] ∝ exp(−|x|/scale) on integers of ℓ1 sensitivity ``sensitivity``."""

    sensitivity: int
    scale: Fraction

    def __post_init__(self) -> None:
        _whole(self, "sensitivity")
        _rational(self, "scale", zero=True)

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

    def __post_init__(self) -> None:
        _whole(self, "sensitivity")
        _rational(self, "sigma", zero=True)

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
    said of the discrete one, and what it adds: ``sensors/readings.md``.
    """

    sensitivity: int
    sigma: int
    numbers: int

    def __post_init__(self) -> None:
        for name in ("sensitivity", "sigma", "numbers"):
            _whole(self, name)
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

    def __post_init__(self) -> None:
        _whole(self, "sensitivity")
        _rational(self, "epsilon")


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

    def __post_init__(self) -> None:
        _whole(self, "sensitivity")
        _rational(self, "scale", zero=True)
        _whole(self, "bias", least=0)

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

    For a geo-indistinguishable mechanism ε is a price for each metre (or each unit of length of a plane) between them,
    and ``per`` names that length: "metre" or "unit of length".
    """

    epsilon: Fraction
    per: str | None = None

    def __post_init__(self) -> None:
        _rational(self, "epsilon")
        if self.per is not None and self.per not in _LENGTHS:
            raise InvalidInput(f"per of RandomizedReport is {_shown(self.per)}; expected {' or '.join(_LENGTHS)}.")


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

    def __post_init__(self) -> None:
        _whole(self, "sensitivity")
        _rational(self, "scale", zero=True)
        _rational(self, "shape", zero=True)

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

    ``failure_probability`` is the chance that something goes amiss on which all this rests. δ then has to hold (1 + e^ε) times that
    as well, ε being the loss of all events together.
    """

    epsilon: Fraction
    steps: int
    bounded_range: bool
    failure_probability: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _rational(self, "epsilon")
        _whole(self, "steps", least=0)
        _rational(self, "failure_probability", zero=True)
        expect(bool, self.bounded_range, "bounded_range of PureSteps")
        if self.failure_probability >= 1:
            raise InvalidInput(
                f"failure_probability of PureSteps is {_shown(self.failure_probability)}; expected a probability below 1."
            )

    @property
    def rho(self) -> Fraction:
        """ρ of zero-concentrated privacy, the formula above."""
        return self.steps * self.epsilon**2 / (8 if self.bounded_range else 2)


@dataclass(frozen=True)
class Composition:
    """Several events on the same data."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        expect(tuple, self.events, "A composition's list of events")
        for event in self.events:
            expect((*_KINDS.values(), Composition), event, "A part of a composition")


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


def needs_delta(event: Event) -> bool:
    """Does the event cost a δ? Gaussian noise does, and so do many small steps accounted together."""
    return any(isinstance(part, Concentrated) for part in flatten(event))


_KINDS: dict[str, type[Elementary]] = {
    "discrete-laplace": DiscreteLaplace,
    "discrete-gaussian": DiscreteGaussian,
    "fine-gaussian": FineGaussian,
    "laplace-on-paths": LaplaceOnPaths,
    "biased-splits": BiasedSplits,
    "randomized-report": RandomizedReport,
    "noise-shares": NoiseShares,
    "pure-steps": PureSteps,
}
"""The names of elementary events in files."""

_NAMES = {kind: name for name, kind in _KINDS.items()}


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as plain numbers and texts, for ledgers and releases."""
    if isinstance(event, Composition):
        return {"kind": "composition", "events": [event_to_dict(part) for part in event.events]}
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    plain = {name: str(value) if isinstance(value, Fraction) else value for name, value in fields.items()}
    return {"kind": _NAMES[type(event)]} | {name: value for name, value in plain.items() if value is not None}


def event_from_dict(fields: Mapping[str, Any]) -> Event:
    """Undo :func:`event_to_dict`; the fields may come from a stranger's file, so every one is looked at."""
    expect(Mapping, fields, "The description of an event")
    found = dict(fields)
    kind = found.pop("kind", None)
    if kind == "composition":
        expect(list, found.get("events"), "A composition's list of events")
        return Composition(tuple(event_from_dict(part) for part in found["events"]))
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"Nobody knows the event {_shown(kind)}; it may come from a newer version.")
    known = dataclasses.fields(_KINDS[kind])
    required = {field.name for field in known if field.default is dataclasses.MISSING}
    if not required <= set(found) <= {field.name for field in known}:
        listed = ", ".join(sorted(map(_shown, found))) or "nothing"
        raise InvalidInput(f"The event {kind} is described by {listed}; expected {', '.join(sorted(required))}.")
    rationals = {field.name for field in known if field.type == "Fraction"}
    return _KINDS[kind](**{name: _read(value) if name in rationals else value for name, value in found.items()})


def _read(text: Any) -> Any:
    """A rational as :func:`event_to_dict` writes it; anything else stays as it is, and the event refuses it.

    ``Fraction`` would take 1e999999999 too, and compute for years.
    """
    if isinstance(text, str) and re.fullmatch(r"-?[0-9]{1,4300}(/[0-9]{1,4300})?", text, re.ASCII):
        numerator, _, denominator = text.partition("/")
        return Fraction(int(numerator), int(denominator or 1)) if int(denominator or 1) else text
    return text
