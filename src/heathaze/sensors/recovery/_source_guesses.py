"""Many guesses of sources at once: how many, where, how strong, and what they leave of the readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.privacy.randomness import Randomness
from heathaze.sensors.recovery._prior import Prior
from heathaze.sensors.recovery._space import Places, Space
from heathaze.types import Floats, Integers


@dataclass(eq=False)
class Guesses:
    """N guesses of at most K sources each. Beyond the number of a guess, strengths and columns are 0."""

    number: Integers  # (N,)
    places: Places  # (N, K, dimensions) or (N, K)
    strengths: Floats  # (N, K)
    centre: Floats  # (N,), about which strengths lie where they are alike
    spread: Floats  # (N,), how far, as a part of the centre
    columns: Floats  # (N, K, directions)
    readings: Floats  # (directions,), or (N, directions) to give each guess its own
    residual: Floats  # (N, directions)

    @classmethod
    def drawn(cls, space: Space, prior: Prior, readings: Floats, count: int, bits: Randomness) -> Guesses:
        """From the prior."""
        running = np.cumsum(np.exp(prior.number - prior.number.max()))
        number = np.searchsorted(running, bits.uniforms(count) * running[-1], side="right").astype(np.int64)
        places = space.draw(count * prior.most, bits)
        centre, spread, strengths = prior.draw(number, bits.uniforms(count * (prior.most + 2)).reshape(count, -1))
        columns = space.columns(places).reshape(count, prior.most, -1)
        columns[np.arange(prior.most) >= number[:, None]] = 0.0
        shaped = places.reshape(count, prior.most, *places.shape[1:])
        guesses = cls(number, shaped, strengths, centre, spread, columns, readings, columns[:, 0])
        guesses.settle()
        return guesses

    def settle(self) -> None:
        """Compute the residual anew: many small changes leave rounding behind."""
        self.residual = self.readings - np.einsum("nk,nkr->nr", self.strengths, self.columns)

    def chosen(self, which: Integers) -> Guesses:
        """Some guesses, in order; readings must be common to all."""
        return Guesses(
            self.number[which],
            self.places[which],
            self.strengths[which],
            self.centre[which],
            self.spread[which],
            self.columns[which],
            self.readings,
            self.residual[which],
        )

    def misfit(self) -> Floats:
        """‖residual‖² of each guess."""
        return np.asarray(np.einsum("nr,nr->n", self.residual, self.residual))
