"""One round of SplitAndMix: devices split noisy counts of tree nodes into shares, and the mixed shares are added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.central.tree_fit import heaviest
from heathaze.checks import whole
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists, interleave, nodes_at
from heathaze.errors import InvalidInput, SensitivityExceeded
from heathaze.privacy.door import pay
from heathaze.privacy.events import Composition
from heathaze.privacy.noise_shares import noise_share, share_shape, split_mass
from heathaze.privacy.randomness import Randomness
from heathaze.shuffle.mechanism import cells_of, check_batch, check_room, promise
from heathaze.shuffle.split_and_mix import LevelPlan, SplitAndMix
from heathaze.types import Integers


@dataclass(frozen=True)
class Round:
    """One round: the nodes of one level whose sums are asked for. It is the mechanism of the study of this round.

    Args:
        protocol: The protocol.
        index: The number of the round, from 0.
        nodes: The codes of the nodes. They depend only on the noisy sums of earlier rounds.

    Raises:
        InvalidInput: There is no such round, or the nodes are too many, repeated, or not on the grid.
    """

    protocol: SplitAndMix
    index: int
    nodes: tuple[int, ...]

    @classmethod
    def first(cls, protocol: SplitAndMix) -> Round:
        """The first round of a protocol: all nodes of the top level."""
        return cls(protocol, 0, tuple(nodes_at(protocol.grid, protocol.top).tolist()))

    def after(self, sums: Integers) -> Round | None:
        """The next round: the children of the w nodes with the largest noisy sums, or None at the end.

        Args:
            sums: The noisy sums of this round, one for each node.
        """
        protocol, following = self.protocol, self.index + 1
        if following == len(protocol.plans):
            return None
        nodes = children(np.array(self.nodes)[heaviest(sums, protocol.w)])
        nodes = nodes[exists(protocol.grid, protocol.plans[following].level, nodes)]
        return Round(protocol, following, tuple(nodes.tolist()))

    def __post_init__(self) -> None:
        index = whole(self.index, "index", "the number of a round", least=0, most=len(self.protocol.plans) - 1)
        plan, codes = self.protocol.plans[index], np.array(self.nodes, dtype=np.int64)
        if codes.ndim != 1 or not 1 <= len(codes) <= plan.nodes:
            raise InvalidInput(f"A round asks for {len(codes)} nodes, and its promise holds for at most {plan.nodes}.")
        ranged = (codes >= 0).all() and (codes >> (2 * plan.level) == 0).all()
        if len(set(self.nodes)) != len(codes) or not ranged or not exists(self.protocol.grid, plan.level, codes).all():
            raise InvalidInput("A round asks for a node twice, or for one that the grid does not have.")

    @property
    def plan(self) -> LevelPlan:
        """The numbers of this round."""
        return self.protocol.plans[self.index]

    @property
    def grid(self) -> Grid:
        """The public grid."""
        return self.protocol.grid

    @property
    def epsilon(self) -> Fraction:
        """ε of all rounds."""
        return self.protocol.epsilon

    @property
    def delta(self) -> Fraction:
        """δ of all rounds."""
        return self.protocol.delta

    @property
    def people(self) -> int:
        """The least number of people in a batch."""
        return self.protocol.people

    @property
    def most_people(self) -> int:
        """The most people in a batch; sums over more people do not fit."""
        return self.protocol.most

    @property
    def alone(self) -> None:
        """Without a shuffler nothing is protected."""
        return

    @property
    def event(self) -> Composition:
        """The event of all rounds."""
        return self.protocol.event

    @property
    def numbers(self) -> int:
        """A message is a row of bytes: two for the index of the group element, and the element."""
        return self.plan.message_bytes

    @property
    def limit(self) -> int:
        """Every number is a byte."""
        return 256

    @property
    def elements(self) -> int:
        """The number of group elements: every node is in one element, even a node without people."""
        return -(-len(self.nodes) // self.plan.packed)

    @property
    def least_messages(self) -> int:
        """Everyone sends the same number of messages."""
        return self.elements * self.plan.messages

    @property
    def most_messages(self) -> int:
        """Everyone sends the same number of messages."""
        return self.least_messages

    def parameters(self) -> dict[str, Any]:
        """The public parameters, with the nodes that are asked for."""
        return {**self.protocol.parameters(), "round": self.index, "nodes": list(self.nodes)}

    def draw(self, cells: Integers, randomness: Randomness) -> tuple[Integers, Integers]:
        """Draw the messages of people with one place each.

        Args:
            cells: Indices of their true cells, counted row by row.
            randomness: The source of random bits.

        Returns:
            One row for each message, and the index of the person who sends it.
        """
        codes = interleave(cells // self.grid.cols, cells % self.grid.cols)
        parts = np.array([self.protocol.parts])
        messages = [self.split(self.noisy(np.array([code]), parts, randomness), randomness) for code in codes]
        return np.concatenate(messages), np.repeat(np.arange(len(cells)), self.least_messages)

    def noisy(self, codes: Integers, parts: Integers, randomness: Randomness) -> Integers:
        """Count the parts of one person in each node, and add the person's share of the noise.

        Args:
            codes: Codes of the cells of the person's places.
            parts: How many parts are in each cell; their sum is B.
            randomness: The source of the noise.

        Raises:
            SensitivityExceeded: The parts do not add up to B, so the noise would not be enough. Nothing leaves the
                device.
        """
        if (parts < 0).any() or parts.sum() != self.protocol.parts:
            raise SensitivityExceeded("The parts of a person do not add up to B; nothing leaves the device.")
        at = {node: place for place, node in enumerate(self.nodes)}
        sums = np.zeros(len(self.nodes), dtype=np.int64)
        for code, count in zip((codes >> (2 * (self.grid.depth - self.plan.level))).tolist(), parts, strict=True):
            if code in at:
                sums[at[code]] += count
        return sums + noise_share(self.plan.scale, share_shape(self.people, 0), len(sums), randomness)

    def split(self, sums: Integers, randomness: Randomness) -> Integers:
        """Split the noisy numbers of one person into messages that add up to them modulo q.

        Args:
            sums: One number for each node, from :meth:`noisy`.
            randomness: The source of the messages.

        Returns:
            One row of bytes for each message.
        """
        plan, shape = self.plan, (self.elements, self.plan.packed)
        values = np.zeros(shape[0] * shape[1], dtype=np.int64)
        values[: len(sums)] = sums % plan.modulus
        free = randomness.below(plan.modulus, (plan.messages - 1) * values.size).astype(np.int64)
        shares = free.reshape(plan.messages - 1, *shape)
        last = (values.reshape(shape) - shares.sum(axis=0)) % plan.modulus
        digits = np.concatenate([shares, last[None]]).reshape(-1, plan.packed)
        index = np.tile(np.arange(shape[0]), plan.messages)
        return np.array(
            [
                [*divmod(element, 256), *_packed(row, plan.modulus).to_bytes(plan.message_bytes - 2, "big")]
                for element, row in zip(index.tolist(), digits.tolist(), strict=True)
            ],
            dtype=np.int64,
        )

    def decode(self, messages: Integers, people: int) -> Integers:
        """Add up mixed messages: the noisy sum of each node, as a number from −``below`` on.

        Args:
            messages: One row of bytes for each message.
            people: The number of people who sent them.

        Raises:
            UnexpectedMessage: Sums over this number of people do not fit.
            InvalidInput: The messages cannot come from this number of people, or a value is no element of the group.
        """
        plan = self.plan
        check_room(self, people)
        index = messages[:, 0] * 256 + messages[:, 1]
        found = np.bincount(index, minlength=self.elements)
        if len(found) > self.elements or (found != people * plan.messages).any():
            raise InvalidInput(
                f"A group element does not have the {plan.messages} messages of each of {people} people; messages were "
                "lost, repeated or forged. Nothing was decoded."
            )
        totals = [0] * self.elements
        digits = np.zeros((self.elements, plan.packed), dtype=np.int64)
        for element, block in zip(index.tolist(), messages[:, 2:].astype(np.uint8), strict=True):
            value = int.from_bytes(block.tobytes(), "big")
            totals[element] = max(totals[element], value)
            row = digits[element] + _unpacked(value, plan.modulus, plan.packed)
            digits[element] = row % plan.modulus
        if max(totals) >= plan.modulus**plan.packed:
            raise InvalidInput("A message is no element of the group; it is damaged or forged. Nothing was decoded.")
        return self.centred(digits.ravel()[: len(self.nodes)])

    def centred(self, sums: Integers) -> Integers:
        """Decode sums modulo q to the interval from −``below`` to q − ``below`` − 1."""
        return (sums + self.plan.below) % self.plan.modulus - self.plan.below


@dataclass(frozen=True, eq=False, repr=False)
class NoisyLevels:
    """The noisy sums of all rounds. Public.

    Args:
        protocol: The protocol.
        rounds: The rounds, one for each level.
        sums: The noisy sums of each round, in parts.
        people: The number of people who took part in each round, which is public.
        simulated: Whether the noise was made with simulated randomness.

    >>> simulate_rounds(SplitAndMix(Grid.plane(x=(0, 8), y=(0, 8), size=8), 5, people=100), [(0.5, 0.5)] * 100)
    <NoisyLevels: 2 of 2 rounds of 100 people>
    """

    protocol: SplitAndMix
    rounds: tuple[Round, ...]
    sums: tuple[Integers, ...]
    people: tuple[int, ...]
    simulated: bool = False

    def __repr__(self) -> str:
        return f"<NoisyLevels: {len(self.rounds)} of {len(self.protocol.plans)} rounds of {self.people[0]} people>"


def simulate_rounds(
    protocol: SplitAndMix,
    points: npt.ArrayLike,
    person: npt.ArrayLike | None = None,
    *,
    randomness: Randomness | None = None,
) -> NoisyLevels:
    """Play all parties in one process, without messages: the sums have the law that mixed messages give.

    The function charges no ledger. On one person's device, use :class:`heathaze.shuffle.Participant`.

    Args:
        protocol: The protocol.
        points: Positions, one row (x, y) each, in the grid's coordinates; longitude before latitude.
        person: The person of each row, as whole numbers from 0; if left out, each row is a different person.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.

    Returns:
        The noisy sums of all rounds.

    Raises:
        InvalidInput: A position is not two finite numbers, or ``person`` does not fit.
        PromiseBroken: There are fewer people than the protocol needs.
        UnexpectedMessage: There are more people than fit.

    >>> grid = Grid.plane(x=(0, 8), y=(0, 8), size=8)
    >>> found = simulate_rounds(SplitAndMix(grid, 5, people=100, parts=1), [(0.5, 0.5)] * 100)
    >>> int(found.sums[0].argmax()), len(found.rounds)
    (0, 2)
    """
    cells = cells_of(protocol.grid, points)
    whose = np.arange(len(cells)) if person is None else np.asarray(person)
    if whose.shape != cells.shape or not np.issubdtype(whose.dtype, np.integer) or (whose < 0).any():
        raise InvalidInput("person needs one whole number of at least 0 for each position.")
    found = np.unique(whose)
    check_batch(protocol, len(found))
    check_room(Round.first(protocol), len(found))
    receipt = pay(promise(protocol), protocol.event, randomness=randomness)
    codes, parts = _all_parts(protocol, cells, whose, receipt.randomness)
    shape = len(found) * share_shape(protocol.people, 0)
    rounds: list[Round] = []
    sums: list[Integers] = []
    current: Round | None = Round.first(protocol)
    while current is not None:
        nodes = np.array(current.nodes)
        order = np.argsort(nodes)
        at = codes >> (2 * (protocol.grid.depth - current.plan.level))
        place = np.minimum(np.searchsorted(nodes[order], at), len(nodes) - 1)
        hit = nodes[order][place] == at
        exact = np.zeros(len(nodes), dtype=np.int64)
        np.add.at(exact, order[place[hit]], parts[hit])
        noise = noise_share(current.plan.scale, shape, len(nodes), receipt.randomness)
        rounds.append(current)
        sums.append(current.centred(exact + noise))
        current = current.after(sums[-1])
    return NoisyLevels(protocol, tuple(rounds), tuple(sums), (len(found),) * len(rounds), receipt.simulated)


def parts_of(protocol: SplitAndMix, cells: Integers, randomness: Randomness) -> tuple[Integers, Integers]:
    """Divide the B parts of one person over their cells: systematic rounding, once, at the leaves of the tree.

    Returns:
        The codes of the cells, and the number of parts in each. Their sum is B exactly.
    """
    codes, counts = np.unique(interleave(cells // protocol.grid.cols, cells % protocol.grid.cols), return_counts=True)
    return codes, split_mass(protocol.parts, counts, randomness)


def _all_parts(
    protocol: SplitAndMix, cells: Integers, whose: Integers, randomness: Randomness
) -> tuple[Integers, Integers]:
    order = np.argsort(whose, kind="stable")
    groups = np.split(cells[order], np.flatnonzero(np.diff(whose[order])) + 1)
    if all(len(group) == 1 for group in groups):
        codes = interleave(cells // protocol.grid.cols, cells % protocol.grid.cols)
        return codes, np.full(len(cells), protocol.parts)
    pairs = [parts_of(protocol, group, randomness) for group in groups]
    parts = np.concatenate([part for _, part in pairs])
    if parts.sum() != len(groups) * protocol.parts or (parts < 0).any():
        raise SensitivityExceeded("The parts of a person do not add up to B; nothing is counted.")
    return np.concatenate([code for code, _ in pairs]), parts


def _packed(digits: Sequence[int], modulus: int) -> int:
    value = 0
    for digit in digits:
        value = value * modulus + digit
    return value


def _unpacked(value: int, modulus: int, packed: int) -> list[int]:
    digits = []
    for _ in range(packed):
        value, digit = divmod(value, modulus)
        digits.append(digit)
    return digits[::-1]
