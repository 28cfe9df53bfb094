"""Events: descriptions of a mechanism's noise, complete enough to compute its privacy loss.

A mechanism describes its noise as an event, and :func:`heathaze.privacy.accountant.compose` computes the privacy loss
of several events together. Every event checks its own numbers, because an edited file may hold an ε of −5, which would
cancel an ε of 5. An event may have noise of scale 0, for tests of the code around the noise. Its privacy loss is
infinite, so :func:`compose` refuses it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from heathaze.checks import assign, shown, whole
from heathaze.errors import InvalidInput, PromiseBroken, expect
from heathaze.privacy.loss import read_rational

_LENGTHS = ("metre", "unit of length")

_MAY_BE_ZERO = ("scale", "sigma", "shape", "bias", "steps", "failure_probability")

_MOST_NESTED = 100
"""The limit of nested compositions. Mechanisms need three levels; thousands of levels would exhaust the stack."""

_MOST_PEOPLE, _MOST_AT_A_NODE = 10**9, 10**6
"""The most people who send messages through a shuffler, and the most decoys at a node: limits of the accountant."""

_LONGEST_WEIGHT = 256
"""The most bits of a weight of mixed reports, and of the number that says how likely the weight is."""


class _Checked:
    """Base class that checks the numbers of an event, whether a mechanism made it or a file holds it."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value, name = getattr(self, field.name), f"{field.name} of {type(self).__name__}"
            zero = field.name in _MAY_BE_ZERO
            if field.type == "int":
                assign(self, **{field.name: whole(value, name, least=0 if zero else 1)})
            elif field.type == "Fraction":
                exact = Fraction(value) if type(value) is int else value
                if type(exact) is not Fraction or exact < 0 or (exact == 0 and not zero):
                    range_ = "of at least 0" if zero else "above 0"
                    raise InvalidInput(f"{name} is {shown(value)}; give an exact fraction {range_}.")
                assign(self, **{field.name: exact})

    def _check_noise(self, scale: Fraction) -> None:
        if scale == 0:
            raise PromiseBroken(f"A {type(self).__name__} without noise has an infinite privacy loss; add noise.")


@dataclass(frozen=True)
class DiscreteLaplace(_Checked):
    """Event: independent discrete Laplace noise, Pr[x] ∝ exp(−|x|/scale), added to integers.

    Args:
        sensitivity: ℓ1 sensitivity of the integers, at least 1: the sum of the changes that one unit can cause.
        scale: Scale of the noise, at least 0.

    >>> DiscreteLaplace(1, Fraction(2)).epsilon
    Fraction(1, 2)
    """

    sensitivity: int
    scale: Fraction

    @property
    def epsilon(self) -> Fraction:
        """ε = sensitivity / scale, exactly (Ghosh, Roughgarden, Sundararajan 2009)."""
        self._check_noise(self.scale)
        return self.sensitivity / self.scale


@dataclass(frozen=True)
class DiscreteGaussian(_Checked):
    """Event: independent discrete Gaussian noise, Pr[x] ∝ exp(−x²/2σ²), added to integers.

    Args:
        sensitivity: ℓ2 sensitivity of the integers, at least 1.
        sigma: σ, at least 0.
    """

    sensitivity: int
    sigma: Fraction

    @property
    def rho(self) -> Fraction:
        """ρ of zero-concentrated privacy: sensitivity² / 2σ² (Canonne, Kamath, Steinke 2020, Theorem 4)."""
        self._check_noise(self.sigma)
        return Fraction(self.sensitivity**2) / (2 * self.sigma**2)


@dataclass(frozen=True)
class FineGaussian(_Checked):
    """Event: discrete Gaussian noise with a large σ, accounted as continuous Gaussian noise (Balle and Wang 2018).

    The exact ε of continuous Gaussian noise is smaller than the ε that follows from ρ. ``sensors/readings.md`` proves
    how much the rounding to integers adds to it.

    Args:
        sensitivity: ℓ2 sensitivity of all integers together, at least 1.
        sigma: σ, at least 2^16.
        numbers: The number of integers that get noise.

    Raises:
        PromiseBroken: σ is below 2^16.
    """

    sensitivity: int
    sigma: int
    numbers: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma < 2**16:
            raise PromiseBroken(f"Fine Gaussian noise has σ = {self.sigma} steps; it needs at least {2**16}.")

    @property
    def rho(self) -> Fraction:
        """ρ of zero-concentrated privacy, as for any discrete Gaussian."""
        return Fraction(self.sensitivity**2, 2 * self.sigma**2)


@dataclass(frozen=True)
class LaplaceOnPaths(_Checked):
    """Event: counts of tree nodes with discrete Laplace noise, where each path from root to leaf spends at most ε.

    The nodes may be chosen in view of earlier noisy counts. The count of node v has noise of scale sensitivity / ε_v.
    Let m_v be the mass of one unit in v, as a share of the sensitivity: the sum of its shares m_leaf in the leaves
    below v. The unit's privacy loss is at most Σ_v ε_v m_v = Σ_leaf m_leaf Σ_{v above leaf} ε_v. So a bound on the ε of
    each path also bounds the loss of the whole tree, for every tree that the noise may lead to.

    Args:
        sensitivity: The largest mass of one unit, at least 1.
        epsilon: The largest sum of ε_v on any path from the root to a leaf, above 0.
    """

    sensitivity: int
    epsilon: Fraction


@dataclass(frozen=True)
class BiasedSplits(_Checked):
    """Event: the shape of a tree in which each node with a biased, noisy count above a threshold θ is split (PrivTree).

    At depth d a node of mass c is split if max(c − d·bias, θ − bias) + X > θ. X is discrete Laplace noise, and all
    numbers are integers. Only the shape of the tree is released. The privacy loss does not grow with the depth:

        ε = sensitivity / scale · (1 + 1 / (1 − exp(−bias / scale)))

    (Zhang, Xiao, Xie 2016, Theorem 3.1; for units spread over cells and discrete noise see ``priv_tree.md``).

    Args:
        sensitivity: The largest mass of one unit, at least 1.
        scale: Scale of X, at least 0.
        bias: The number that each further level of depth subtracts from a count, at least 0.
    """

    sensitivity: int
    scale: Fraction
    bias: int

    @property
    def epsilon(self) -> Fraction:
        """ε by the formula of the class, with exp(−bias / scale) rounded up to a multiple of 2^−60.

        Raises:
            PromiseBroken: The privacy loss is infinite.
        """
        if self.scale == 0 or self.bias == 0:
            raise PromiseBroken("A tree grown without noise or without bias has an infinite privacy loss; add both.")
        decay = _exp_of_minus(self.bias / self.scale)
        if decay >= 1:
            raise PromiseBroken(
                "The bias of the tree is too small beside its noise, so its privacy loss is infinite; raise the bias."
            )
        return self.sensitivity / self.scale * (1 + 1 / (1 - decay))


@dataclass(frozen=True)
class ExponentialChoice(_Checked):
    """Event: one choice of the exponential mechanism, with probability ∝ (public weight) · exp(−rate · energy).

    Adding or removing one unit changes the energy of each alternative by a number between −a and b. Dividing by the sum
    of all weights changes every probability by a factor between exp(−rate · b) and exp(rate · a), so the logarithm of a
    probability changes by at most rate · (a + b).

    Args:
        sensitivity: The length a + b of the range of the changes, at least 1.
        rate: The rate, above 0.

    >>> ExponentialChoice(4, Fraction(1, 8)).epsilon
    Fraction(1, 2)
    """

    sensitivity: int
    rate: Fraction

    @property
    def epsilon(self) -> Fraction:
        """ε = rate · sensitivity."""
        return self.rate * self.sensitivity


def _exp_of_minus(exponent: Fraction) -> Fraction:
    """Compute exp(−exponent), rounded up to a multiple of 2^−60. Unlike floats, the result is equal on all machines.

    >>> float(_exp_of_minus(Fraction(0))), round(float(_exp_of_minus(Fraction(1))), 12)
    (1.0, 0.367879441171)
    """
    if exponent > 42:  # exp(−42) < 2^−60
        return Fraction(1, 2**60)
    with localcontext(Context(prec=40, rounding=ROUND_FLOOR, traps=[])):
        # The quotient is rounded down, and decimal's exp errs by half a unit of the 40th digit; 1e-38 covers both.
        power = (-(Decimal(exponent.numerator) / Decimal(exponent.denominator))).exp()
        return min(Fraction(1), Fraction(math.ceil((Fraction(power) + Fraction(1, 10**38)) * 2**60), 2**60))


@dataclass(frozen=True)
class RandomizedReport(_Checked):
    """Event: one randomised report, whose probability differs by at most a factor of e^ε between two positions.

    Args:
        epsilon: ε, above 0.
        per: None, or for geo-indistinguishability the length to which ε refers: "metre" or "unit of length".

    Raises:
        InvalidInput: ``per`` is another text.
    """

    epsilon: Fraction
    per: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per is not None and self.per not in _LENGTHS:
            raise InvalidInput(f"per of RandomizedReport is {shown(self.per)}; give {' or '.join(_LENGTHS)}.")


@dataclass(frozen=True)
class NoiseShares(_Checked):
    """Event: a sum to which every device adds a noise share: in each coordinate the difference of two Pólya numbers.

    The Pólya numbers have β = exp(−1/scale), see :mod:`heathaze.privacy.noise_shares`. If the shapes of all shares sum
    to 1 or more, the noise is discrete Laplace noise plus independent noise. Below shape 1 the privacy loss is larger
    than sensitivity / scale (errata E3-1), so such a sum must never be opened.

    Args:
        sensitivity: ℓ1 sensitivity of the sum, at least 1.
        scale: Scale of the noise, at least 0.
        shape: Sum of the shapes of all shares that the adversary does not know, at least 0.
    """

    sensitivity: int
    scale: Fraction
    shape: Fraction

    @property
    def epsilon(self) -> Fraction:
        """ε = sensitivity / scale."""
        self._check_noise(self.scale)
        if self.shape < 1:
            raise PromiseBroken(
                f"The noise of a sum has shape {float(self.shape):.4g} and needs at least 1; too few devices added "
                "their share, so the sum must not be opened."
            )
        return self.sensitivity / self.scale


@dataclass(frozen=True)
class PureSteps(_Checked):
    """Event: many small steps with a pure ε each, accounted together as zero-concentrated privacy.

    Each step may be chosen in view of the outcomes of earlier steps. Basic composition would cost steps · ε.
    Zero-concentrated privacy costs far less, but needs a δ. A step has *bounded range* if the odds of any two of its
    outcomes change by a factor of at most e^ε. The exponential mechanism and a logistic coin have bounded range. The ρ
    of such a step is a quarter of the ρ of another step with the same ε:

        ρ = steps · ε² / 8   with bounded range (Dong, Durfee, Rogers 2020; Cesar and Rogers 2021, Lemma 3.2)
        ρ = steps · ε² / 2   otherwise          (Bun and Steinke 2016, Proposition 1.4)

    Args:
        epsilon: ε of one step, above 0.
        steps: The number of steps, at least 0.
        bounded_range: Whether every step has bounded range.
        failure_probability: The probability that an assumption of the proof fails, at least 0 and below 1. δ must also
            cover (1 + e^ε) times this probability, where ε is the privacy loss of all events together.

    Raises:
        InvalidInput: A value is out of range.
    """

    epsilon: Fraction
    steps: int
    bounded_range: bool
    failure_probability: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(bool, self.bounded_range, "bounded_range of PureSteps")
        if self.failure_probability >= 1:
            raise InvalidInput(
                f"failure_probability of PureSteps is {shown(self.failure_probability)}; give a probability below 1."
            )

    @property
    def rho(self) -> Fraction:
        """ρ of zero-concentrated privacy, by the formula of the class."""
        return self.steps * self.epsilon**2 / (8 if self.bounded_range else 2)


@dataclass(frozen=True)
class DecoyCounts(_Checked):
    """Counts of the nodes of one level of a tree, in which every person counts once and adds decoys at random nodes.

    A person adds ⌊d⌋ decoys, and one more with probability d − ⌊d⌋; each is at a uniformly random node. A shuffler
    mixes the messages. :mod:`heathaze.privacy.decoy_loss` computes the privacy loss of replacing one person's node.

    Args:
        people: The least number of people whose decoys the adversary does not know, at least 1.
        nodes: The number of nodes, at least 2.
        decoys: d, the expected number of decoys of one person at this level, above 0.

    Raises:
        InvalidInput: A value is out of range.
    """

    people: int
    nodes: int
    decoys: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        too_many = self.people > _MOST_PEOPLE or self.people * self.decoys > _MOST_AT_A_NODE * self.nodes
        if too_many or not 2 <= self.nodes <= 2**62:
            raise InvalidInput(
                f"Decoys of {shown(self.people)} people at {shown(self.nodes)} nodes cannot be accounted; give 2 to "
                f"2^62 nodes, at most {_MOST_PEOPLE} people, and at most {_MOST_AT_A_NODE} decoys at a node."
            )


@dataclass(frozen=True)
class MixedReports(_Checked):
    """Local reports, one for each person, that a shuffler has mixed.

    The probability of each report is that of a public distribution, times a weight that depends on the position. For a
    report drawn from the public distribution, every position gives the weight the same law.
    :mod:`heathaze.privacy.shuffling` computes the privacy loss of replacing one person's position.

    Args:
        people: The least number of people whose reports the adversary does not know, at least 1.
        weights: The different weights, ascending whole numbers.
        counts: How likely each weight is, as whole numbers of any common unit. If the public distribution is uniform,
            they are the numbers of reports with each weight.

    Raises:
        InvalidInput: A value is out of range.
    """

    people: int
    weights: tuple[int, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("weights", "counts"):
            numbers = getattr(self, name)
            expect((tuple, list), numbers, f"{name} of MixedReports")
            assign(self, **{name: tuple(whole(number, f"{name} of MixedReports") for number in numbers)})
        ascending = all(low < high for low, high in itertools.pairwise(self.weights))
        if len(self.weights) != len(self.counts) or not 1 < len(self.weights) <= 2**16 or not ascending:
            raise InvalidInput("The weights of MixedReports do not ascend, or each weight does not have one count.")
        if self.people > _MOST_PEOPLE or max(*self.weights, *self.counts) > 2**_LONGEST_WEIGHT:
            raise InvalidInput(
                f"MixedReports of {shown(self.people)} people cannot be accounted; give smaller numbers."
            )

    @property
    def alone(self) -> float:
        """ε of one report, if the shuffler reveals whose it is."""
        return math.log(self.weights[-1] / self.weights[0]) * (1 + 1e-15)


@dataclass(frozen=True)
class ClonedReports(_Checked):
    """Local reports, one for each person, that a shuffler has mixed, and of which only ε of one report is known.

    :meth:`heathaze.privacy.shuffling.Blanket.clones` bounds the privacy loss of replacing one person's position.

    Args:
        people: The least number of people whose reports the adversary does not know, at least 1.
        epsilon: ε of one report between any two positions, above 0.

    Raises:
        InvalidInput: A value is out of range.
    """

    people: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.people > _MOST_PEOPLE:
            raise InvalidInput(f"Reports of {shown(self.people)} people cannot be accounted; give at most 10^9.")

    @property
    def alone(self) -> float:
        """ε of one report, if the shuffler reveals whose it is."""
        return float(self.epsilon) * (1 + 1e-15)


@dataclass(frozen=True)
class MixedShares(_Checked):
    """Additive shares of noisy group elements, which a shuffler has mixed: each element is the sum of ``messages``.

    The sums are described by other events. Given the sums, the messages are nearly uniform, and how far they are from
    uniform is a failure probability, see :mod:`heathaze.privacy.split_and_mix_loss`. δ must cover (1 + e^ε) times this
    probability, where ε is the privacy loss of all events together.

    Args:
        people: The least number of people whose messages the adversary does not know, at least 1.
        bits: The order of the group is at most 2^bits.
        messages: The number of messages of one person for one group element.
        elements: The number of group elements of one person.

    Raises:
        InvalidInput: A value is out of range.
    """

    people: int
    bits: int
    messages: int
    elements: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.people > _MOST_PEOPLE or self.bits > 2**14 or self.messages > 400 or self.elements > 2**32:
            raise InvalidInput(
                f"Shares of {shown(self.people)} people in {shown(self.messages)} messages of {shown(self.bits)} bits "
                f"cannot be accounted; give at most {_MOST_PEOPLE} people, 400 messages and {2**14} bits."
            )


@dataclass(frozen=True)
class Composition:
    """Event: several events on the same data.

    Args:
        events: A tuple of events. An event may itself be a composition, up to 100 levels deep.

    Raises:
        InvalidInput: A part is not an event, or compositions are nested too deeply.
    """

    events: tuple[Event, ...]
    _nested: int = dataclasses.field(default=1, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect(tuple, self.events, "A composition's list of events")
        for event in self.events:
            expect((*_KINDS.values(), Composition), event, "A part of a composition")
        nested = max((event._nested for event in self.events if isinstance(event, Composition)), default=0) + 1
        _check_nested(nested)
        assign(self, _nested=nested)


def _check_nested(nested: int) -> None:
    if nested > _MOST_NESTED:
        raise InvalidInput(
            f"An event has more than {_MOST_NESTED} compositions inside each other; list its parts in one composition."
        )


Gaussian = DiscreteGaussian | FineGaussian
Pure = DiscreteLaplace | LaplaceOnPaths | BiasedSplits | ExponentialChoice | RandomizedReport | NoiseShares
Concentrated = Gaussian | PureSteps
LocalReports = MixedReports | ClonedReports
Shuffled = DecoyCounts | LocalReports | MixedShares
Elementary = Concentrated | Shuffled | Pure
Event = Elementary | Composition


def flatten(event: Event) -> list[Elementary]:
    """Return the elementary events inside an event and its nested compositions, in order."""
    if isinstance(event, Composition):
        return [part for inner in event.events for part in flatten(inner)]
    return [event]


def needs_delta(event: Event) -> bool:
    """Return whether the loss of an event needs a δ: a part has Gaussian noise, pure steps or shuffled messages."""
    return any(isinstance(part, Concentrated | Shuffled) for part in flatten(event))


def is_shuffled(event: Event) -> bool:
    """Return whether an event has messages that a shuffler mixes."""
    return any(isinstance(part, Shuffled) for part in flatten(event))


# ── in files ────────────────────────────────────────────────────────────────────────────────────────────────────────

_KINDS: dict[str, type[Elementary]] = {
    "discrete-laplace": DiscreteLaplace,
    "discrete-gaussian": DiscreteGaussian,
    "fine-gaussian": FineGaussian,
    "laplace-on-paths": LaplaceOnPaths,
    "biased-splits": BiasedSplits,
    "exponential-choice": ExponentialChoice,
    "randomized-report": RandomizedReport,
    "noise-shares": NoiseShares,
    "pure-steps": PureSteps,
    "decoy-counts": DecoyCounts,
    "mixed-reports": MixedReports,
    "cloned-reports": ClonedReports,
    "mixed-shares": MixedShares,
}
"""The names of elementary events in files."""

_NAMES = {kind: name for name, kind in _KINDS.items()}


def event_to_dict(event: Event) -> dict[str, Any]:
    """Convert an event to plain numbers and texts, for the files of ledgers and releases.

    >>> event_to_dict(DiscreteLaplace(1, Fraction(1, 2)))
    {'kind': 'discrete-laplace', 'sensitivity': 1, 'scale': '1/2'}
    """
    if isinstance(event, Composition):
        return {"kind": "composition", "events": [event_to_dict(part) for part in event.events]}
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    plain = {name: str(value) if isinstance(value, Fraction) else value for name, value in fields.items()}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
    return {"kind": _NAMES[type(event)]} | {name: value for name, value in plain.items() if value is not None}


def event_from_dict(fields: Mapping[str, Any]) -> Event:
    """Build an event from the dictionary that :func:`event_to_dict` returned.

    Args:
        fields: The dictionary. It may come from an unknown file, so every field is checked.

    Raises:
        InvalidInput: The fields do not describe an event.
        PromiseBroken: The event breaks a condition of its proof, such as a :class:`FineGaussian` of small σ.

    >>> event_from_dict({"kind": "discrete-laplace", "sensitivity": 1, "scale": "1/2"}).epsilon
    Fraction(2, 1)
    """
    return _from_dict(fields, nested=0)


def _from_dict(fields: Mapping[str, Any], nested: int) -> Event:
    expect(Mapping, fields, "The description of an event")
    found = dict(fields)
    kind = found.pop("kind", None)
    if kind == "composition":
        _check_nested(nested + 1)
        expect(list, found.get("events"), "A composition's list of events")
        return Composition(tuple(_from_dict(part, nested + 1) for part in found["events"]))
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(
            f"Unknown event {shown(kind)}; it may come from a newer version of Heathaze. Known are {', '.join(_KINDS)}."
        )
    known = dataclasses.fields(_KINDS[kind])
    required = {field.name for field in known if field.default is dataclasses.MISSING}
    if not required <= set(found) <= {field.name for field in known}:
        listed = ", ".join(sorted(map(shown, found))) or "nothing"
        raise InvalidInput(f"The event {kind} is described by {listed}; give {', '.join(sorted(required))}.")
    rationals = {field.name for field in known if field.type == "Fraction"}
    return _KINDS[kind](**{name: read_rational(value) if name in rationals else value for name, value in found.items()})
