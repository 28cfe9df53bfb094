"""The server of a protocol in rounds: it opens one batch for each level of a tree, and chooses what to ask next."""

from __future__ import annotations

import math

import numpy as np

from heathaze.central.tree_fit import Level, fit_tree, heaviest
from heathaze.domain.density import TreeDensity
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Secret, fresh_bytes
from heathaze.release.release import Release
from heathaze.shuffle.mechanism import promise
from heathaze.shuffle.server import Server
from heathaze.shuffle.shares import NoisyLevels, Round
from heathaze.shuffle.split_and_mix import SplitAndMix
from heathaze.shuffle.study import KEY_BYTES, Batch, Study
from heathaze.types import Integers

_ROOT_SCALE = 0.5
"""The noise scale of the root's count in the posterior. The count is public, but the scale must be above 0."""


class Rounds(Secret):
    """The server of :class:`SplitAndMix`: one study for each round, all with the same key.

    Args:
        protocol: The protocol.
        colluders: As in :class:`Study`.
        key: The private key, 32 bytes; a new one if left out.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Participant, Shuffler
    >>> protocol = SplitAndMix(Grid.plane(x=(0, 1), y=(0, 1), size=4), epsilon=9, people=10, delta=0.01, parts=1)
    >>> rounds = Rounds(protocol)
    >>> people = [Participant(rounds.study, [(0.1, 0.9)]) for _ in range(10)]
    >>> while not rounds.finished:
    ...     shuffler = Shuffler(rounds.study)
    ...     for person in people:
    ...         shuffler.accept(person.answer(rounds.study))
    ...     rounds.open(shuffler.mix())
    >>> estimate_rounds(rounds.levels).guarantee.people
    10
    """

    def __init__(self, protocol: SplitAndMix, *, colluders: int = 0, key: bytes | None = None) -> None:
        self._colluders, self._key = colluders, fresh_bytes(KEY_BYTES) if key is None else key
        self._protocol = protocol
        self._rounds: list[Round] = []
        self._sums: list[Integers] = []
        self._people: list[int] = []
        self._simulated = False
        self._ask(Round.first(protocol))

    @property
    def finished(self) -> bool:
        """Whether all levels have been counted."""
        return self._server is None

    @property
    def study(self) -> Study:
        """The study of the current round, for devices and the shuffler.

        Raises:
            InvalidInput: All rounds are over.
        """
        return self._current().study

    @property
    def levels(self) -> NoisyLevels:
        """The noisy sums of all levels.

        Raises:
            InvalidInput: Rounds are missing.
        """
        if not self.finished:
            raise InvalidInput(f"{len(self._rounds)} of {len(self._protocol.plans)} rounds are over; open the others.")
        people = tuple(self._people)
        return NoisyLevels(self._protocol, tuple(self._rounds), tuple(self._sums), people, self._simulated)

    def open(self, batch: Batch) -> None:
        """Decrypt and add up the batch of the current round, and choose the nodes of the next round.

        If one message is refused, nothing of the batch is used.

        Args:
            batch: The batch that the shuffler passed on.

        Raises:
            UnexpectedMessage: The batch belongs to another round or study, or is not whole. See :meth:`Server.open`.
            PromiseBroken: The batch has too few people.
            ProtocolError: A message cannot be opened. Nothing is decoded.
            InvalidInput: The messages cannot come from this number of people.
        """
        server, current = self._current(), self._asked
        mixed = server.open(batch)
        sums = current.decode(mixed.messages, mixed.people)
        self._rounds.append(current)
        self._sums.append(sums)
        self._people.append(mixed.people)
        self._simulated |= mixed.simulated
        self._ask(current.after(sums))

    def _ask(self, asked: Round | None) -> None:
        self._server: Server | None = None
        if asked is not None:
            self._asked = asked
            self._server = Server(asked, colluders=self._colluders, key=self._key)

    def _current(self) -> Server:
        if self._server is None:
            raise InvalidInput("All rounds of the protocol are over; estimate a map from Rounds.levels.")
        return self._server


def estimate_rounds(found: NoisyLevels, *, paper: bool = False) -> Release:
    """Estimate a map from the noisy sums of all rounds. The sums are already private, so the estimate costs nothing.

    Args:
        found: The noisy sums.
        paper: Whether to fit masses as the paper does (:class:`heathaze.central.Pyramid`), without intervals. Otherwise
            the map is the mean of the posterior, as in the curator's default mechanism, and has intervals.

    Returns:
        The release.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import simulate_rounds
    >>> protocol = SplitAndMix(Grid.plane(x=(0, 8), y=(0, 8), size=8), 5, people=100, parts=1)
    >>> release = estimate_rounds(simulate_rounds(protocol, [(0.5, 0.5)] * 100))
    >>> int(release.density.values.argmax())  # the cell in the corner of x = 0 and y = 0
    0
    """
    protocol = found.protocol
    inferred = _fitted(found) if paper else _posterior(found)
    provenance = Provenance.of_devices(protocol, protocol.event, found.simulated, {"paper": paper})
    return Release(inferred, promise(protocol), provenance)


def _fitted(found: NoisyLevels) -> Estimate:
    protocol, measured = found.protocol, []
    for asked, sums, people in zip(found.rounds, found.sums, found.people, strict=True):
        codes = np.array(asked.nodes)
        kept = heaviest(sums, protocol.w)
        scaled = np.rint(sums[kept] * (found.people[0] / people)).astype(np.int64)
        measured.append(Level(codes[kept], scaled))
    fit = fit_tree(protocol.grid, protocol.top, measured)
    density = TreeDensity.from_mass(protocol.grid, fit.levels, fit.codes, fit.mass)
    return Estimate(density, total=float(fit.mass.sum(dtype=np.float64)) / protocol.parts)


def _posterior(found: NoisyLevels) -> Estimate:
    """Infer a map from the sums of all rounds.

    People drop out between rounds, so the sums of a round are scaled to the number of people of the first round. Every
    person adds a share of the noise. The shares of ``people`` people add up to discrete Laplace noise; with more
    people, the variance is larger in proportion.
    """
    levels, codes = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    values, scales = [np.array([float(found.people[0])])], [np.array([_ROOT_SCALE])]
    for asked, sums, people in zip(found.rounds, found.sums, found.people, strict=True):
        if asked.plan.level == 0:
            continue  # the root is known
        levels.append(np.full(len(sums), asked.plan.level))
        codes.append(np.array(asked.nodes))
        part = found.people[0] / people / found.protocol.parts
        scale = float(asked.plan.scale) * math.sqrt(people / found.protocol.people)
        values.append(sums * part)
        scales.append(np.full(len(sums), scale * part))
    arrays = (np.concatenate(parts) for parts in (levels, codes, values, scales))
    return Estimate.infer(NoisyCounts(found.protocol.grid, *arrays))
