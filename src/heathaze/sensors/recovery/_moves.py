"""Moves of particles that leave the posterior of sources invariant (reversible jumps, Green 1995).

A move proposes a change to each particle and accepts it with the Metropolis–Hastings probability for the density

    p(k) · Π p(sⱼ | k) · Π p(xⱼ) · exp(−β/2 · ‖y − Σ sⱼ g(xⱼ)‖²)

At β = 1 this is the posterior, given readings y, of k sources at places xⱼ with strengths sⱼ, where g(x) are the
readings of a unit source at x. A smaller β makes the density flatter. If a move changes only one source, the strength
of this source is integrated out and drawn again afterwards. The order of sources is arbitrary: a new source goes to the
end, and when a source is removed, the last source takes its index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from heathaze.privacy.randomness import Randomness
from heathaze.sensors.recovery._prior import SPREAD_PROBABILITIES, SPREADS, Prior
from heathaze.sensors.recovery._space import Particles, Places, Space, normals
from heathaze.types import Booleans, Floats, Integers

_ANYWHERE = 0.1
"""Fraction of jumps that go to a uniformly drawn place, so that every jump can be reversed."""

_WANTED = 0.3
"""Acceptance rate to which the lengths of steps are tuned."""

_FIRST_LENGTH = 0.3
"""Length of steps before it is tuned, as a fraction of the size of the space or of a strength."""


@dataclass(eq=False)
class Moves:
    """All kinds of moves of the posterior sampler.

    Args:
        space: The space of possible places.
        prior: The prior of the number and the strengths of sources.
        bits: Source of random numbers.
        beta: Power β of the likelihood, 0 to 1.
        tuned: Whether the lengths of steps adapt to the acceptance rate.
        lengths: Lengths of steps by the kind of move.
    """

    space: Space
    prior: Prior
    bits: Randomness
    beta: float = 1.0
    tuned: bool = True
    lengths: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._weights = _squares(self.space.table.T)
        self._longest = float((self.space.high - self.space.low).max())
        self._log_volume = float(np.log(self.space.high - self.space.low).sum())

    def sweep(self, particles: Particles) -> None:
        """Move all particles by each kind of move that applies, once or more."""
        for move in self.kinds():
            move(particles)

    def kinds(self) -> Sequence[Callable[[Particles], None]]:
        """The kinds of moves in one sweep, in order."""
        chosen: list[Callable[[Particles], None]] = [self.walk, self.jump, self.walk]
        if not self.prior.counted:
            chosen += [self.birth_or_death, self.walk, self.birth_or_death]
            if self.space.continuous and not self.prior.fixed:
                chosen.append(self.split_or_merge)
        if self.prior.alike:
            chosen.append(self.rescale_strengths)
        if self.prior.most > 1:
            if self.space.continuous:
                chosen.append(self.apart)
            if not self.prior.fixed:
                chosen.append(self.trade)
        return chosen

    # ── one source, its strength integrated out ─────────────────────────────────────────────────────────────────

    def walk(self, particles: Particles) -> None:
        """Move one source of each particle to a nearby place."""
        which = self._one(particles)
        here, held, rest = particles.source(which)
        moved, back = self.space.step(here, self._length("walk", len(which)), self.bits)
        columns = self.space.columns(moved)
        gain = self._evidence(particles, columns, rest) - self._evidence(particles, held, rest)
        taken = self._accept(gain + back)
        self._tune("walk", taken.mean())
        self._put(particles, taken, which, moved, columns, rest)

    def jump(self, particles: Particles) -> None:
        """Move one source of each particle to any place, most likely where other sources explain the readings least."""
        which = self._one(particles)
        here, held, rest = particles.source(which)
        aim = self._aim(particles.centre, particles.spread, rest)
        moved, offered = self._proposed(aim)
        columns = self.space.columns(moved)
        gain = self._evidence(particles, columns, rest) - np.log(offered)
        gain -= self._evidence(particles, held, rest) - np.log(self._offered(aim, here))
        self._put(particles, self._accept(gain), which, moved, columns, rest)

    def birth_or_death(self, particles: Particles) -> None:
        """Add a source to each particle, or remove one, with probability 1/2 each.

        A new source is most likely where the other sources explain the readings least. If strengths are unknown, with
        probability 1/2 all other strengths and their centre are scaled by k/(k+1) when a source is added to k, and by
        (k+1)/k when one is removed, so that the expected sum of strengths stays the same. The determinant of this
        scaling and the change of the strengths' prior density cancel.
        """
        born = self.bits.uniforms(len(particles.number)) < 0.5
        possible = np.where(born, particles.number < self.prior.most, particles.number > 1)
        which = np.minimum(np.where(born, particles.number, self._one(particles)), self.prior.most - 1)
        here, held, rest = particles.source(which)
        fewer = np.maximum(particles.number - ~born, 1)
        more = np.minimum(fewer + 1, self.prior.most)
        scale = self._halved(fewer)
        # Residuals of the k common sources: with their strengths in the set of k (left) and in the set of k+1 (among).
        alone = np.where(born[:, None], particles.residual, rest)
        rescale = np.where(born, scale, 1 / scale)
        scaled = particles.readings - rescale[:, None] * (particles.readings - alone)
        among = np.where(born[:, None], scaled, alone)
        left = np.where(born[:, None], alone, scaled)
        centre_among = particles.centre * np.where(born, scale, 1.0)
        centre_left = centre_among / scale
        aim = self._aim(centre_among, particles.spread, among)
        fresh, _ = self._proposed(aim)
        places = np.where(_wide(born, fresh), fresh, here)
        columns = np.where(born[:, None], self.space.columns(fresh), held)
        # The probability to remove one of k+1 sources and the probability of a new source's index are equal and cancel.
        gain = self.prior.log_number(more, centre_among) - self.prior.log_number(fewer, centre_left)
        gain -= self.beta / 2 * (_squares(among) - _squares(left))
        gain += self._one_more(centre_among, particles.spread, columns, among) - np.log(self._offered(aim, places))
        taken = self._accept(np.where(born, gain, -gain)) & possible
        births, deaths = taken & born, np.flatnonzero(taken & ~born)
        particles.strengths[taken] *= rescale[taken][:, None]
        particles.centre[taken] *= rescale[taken]
        particles.number[births] += 1
        self._put(particles, births, which, places, columns, among, redraw=births)
        particles.residual[deaths] = left[deaths]
        self._remove(particles, deaths, which[deaths])

    # ── strengths of all ────────────────────────────────────────────────────────────────────────────────────────

    def rescale_strengths(self, particles: Particles) -> None:
        """Draw the spread and the centre of the strengths again, then scale strengths and centre by a common factor."""
        count = len(particles.number)
        spreads = [np.full(count, spread) for spread in SPREADS]
        log = np.stack([self.prior.log_strengths(particles.centre, spread, particles.strengths) for spread in spreads])
        running = np.cumsum(np.exp(log - log.max(axis=0)) * SPREAD_PROBABILITIES[:, None], axis=0)
        drawn = (running < self.bits.uniforms(count) * running[-1]).sum(axis=0)
        particles.spread = SPREADS[np.minimum(drawn, len(SPREADS) - 1)]
        moved = particles.centre * np.exp(normals(self.bits, count) * particles.spread)
        gain = self.prior.log_number(particles.number, moved)
        gain -= self.prior.log_number(particles.number, particles.centre)
        gain += self.prior.log_strengths(moved, particles.spread, particles.strengths)
        gain -= self.prior.log_strengths(particles.centre, particles.spread, particles.strengths)
        particles.centre = np.where(self._accept(gain), moved, particles.centre)
        factor = np.exp(normals(self.bits, count) * self._length("scale", count))
        residual = particles.readings - factor[:, None] * (particles.readings - particles.residual)
        # The prior density of each strength is divided by the factor, and the determinant of the scaling cancels this.
        gain = self.prior.log_number(particles.number, particles.centre * factor)
        gain -= self.prior.log_number(particles.number, particles.centre)
        gain -= self.beta / 2 * (_squares(residual) - _squares(particles.residual))
        taken = self._accept(gain)
        self._tune("scale", taken.mean())
        particles.centre[taken] *= factor[taken]
        particles.strengths[taken] *= factor[taken][:, None]
        particles.residual[taken] = residual[taken]

    # ── two sources ─────────────────────────────────────────────────────────────────────────────────────────────

    def apart(self, particles: Particles) -> None:
        """Move two sources of each particle towards or away from each other, with a fixed centre of mass."""
        rows = np.flatnonzero(particles.number > 1)
        which, (first, second), strengths = self._pairs(particles, rows)
        if not len(rows):
            return
        share = strengths[0] / (strengths[0] + strengths[1])
        apart = normals(self.bits, *first.shape) * self._length("apart", len(rows))[:, None] * self._longest
        first, second = first + apart * (1 - share)[:, None], second - apart * share[:, None]
        taken = self._both(particles, rows, which, (first, second), strengths)
        self._tune("apart", taken.mean())

    def trade(self, particles: Particles) -> None:
        """Move strength from one source to another; in a continuous space both shift to keep the centre of mass.

        If strength δ moves to the source at x₁ from the source at x₂, and S is the sum of both strengths, both places
        shift by −δ(x₁ − x₂)/S. The determinant of this change is 1.
        """
        rows = np.flatnonzero(particles.number > 1)
        which, (first, second), strengths = self._pairs(particles, rows)
        if not len(rows):
            return
        total = strengths[0] + strengths[1]
        # The length of a step depends on the particle only through the sum, which the move does not change.
        moved = normals(self.bits, len(rows)) * self._length("trade", len(rows)) * total
        strengths = strengths[0] + moved, strengths[1] - moved
        if self.space.continuous:
            shift = (moved / total)[:, None] * (first - second)
            first, second = first - shift, second - shift
        taken = self._both(particles, rows, which, (first, second), strengths, prior=True)
        self._tune("trade", taken.mean())

    def split_or_merge(self, particles: Particles) -> None:
        """Split a source into two with the same sum and centre of mass, or merge two, with probability 1/2 each.

        A source of strength s at x becomes two: s₁ = u·s, s₂ = (1 − u)·s, x₁ = x + (1 − u)·d, x₂ = x − u·d, with u
        uniform and d normal. The determinant of this change is s. The probabilities to choose a source for the split
        and an ordered pair for the merge cancel: both are 1/k · 1/(k+1).
        """
        splits = self.bits.uniforms(len(particles.number)) < 0.5
        spread = self.lengths.setdefault("split", _FIRST_LENGTH) * self._longest
        done = self._split(particles, np.flatnonzero(splits & (particles.number < self.prior.most)), spread)
        done += self._merge(particles, np.flatnonzero(~splits & (particles.number > 1)), spread)
        # Splits and merges are seldom accepted, so the spread is tuned to the distances in accepted moves.
        if self.tuned and done:
            self.lengths["split"] = min(1.0, 0.7 * self.lengths["split"] + 0.3 * float(np.median(done)))

    def _split(self, particles: Particles, rows: Integers, spread: float) -> list[float]:
        if not len(rows):
            return []
        which = (self.bits.uniforms(len(rows)) * particles.number[rows]).astype(np.int64)
        whole, where = particles.strengths[rows, which], particles.places[rows, which]
        part = self.bits.uniforms(len(rows))
        parts = part * whole, (1 - part) * whole
        away = normals(self.bits, *where.shape) * spread
        first, second = where + (1 - part)[:, None] * away, where - part[:, None] * away
        inside = self._inside(first) & self._inside(second)
        first, second = np.where(inside[:, None], first, where), np.where(inside[:, None], second, where)
        columns = self.space.columns(np.concatenate([first, second])).reshape(2, len(rows), -1)
        residual = particles.residual[rows] + whole[:, None] * particles.columns[rows, which]
        residual -= parts[0][:, None] * columns[0] + parts[1][:, None] * columns[1]
        fewer = particles.number[rows]
        centre = particles.centre[rows] * self._halved(fewer)
        gain = self._worth_of_two(
            particles, rows, (which, which), fewer, parts, away, spread, centre, particles.centre[rows]
        )
        gain -= self.beta / 2 * (_squares(residual) - _squares(particles.residual[rows]))
        taken = self._accept(gain) & inside
        done = rows[taken]
        for j, place, strength, column in zip((which, fewer), (first, second), parts, columns, strict=True):
            particles.places[done, j[taken]] = place[taken]
            particles.strengths[done, j[taken]] = strength[taken]
            particles.columns[done, j[taken]] = column[taken]
        particles.residual[done] = residual[taken]
        particles.centre[done] = centre[taken]
        particles.number[done] += 1
        return list(np.sqrt(_squares(away[taken])) / self._longest)

    def _merge(self, particles: Particles, rows: Integers, spread: float) -> list[float]:
        if not len(rows):
            return []
        (one, two), (first, second), strengths = self._pairs(particles, rows)
        whole = strengths[0] + strengths[1]
        where = (strengths[0][:, None] * first + strengths[1][:, None] * second) / whole[:, None]
        columns = self.space.columns(where)
        residual = particles.residual[rows] - whole[:, None] * columns
        residual += strengths[0][:, None] * particles.columns[rows, one]
        residual += strengths[1][:, None] * particles.columns[rows, two]
        fewer = particles.number[rows] - 1
        centre = particles.centre[rows] / self._halved(fewer)
        gain = -self._worth_of_two(
            particles, rows, (one, two), fewer, strengths, first - second, spread, particles.centre[rows], centre
        )
        gain -= self.beta / 2 * (_squares(residual) - _squares(particles.residual[rows]))
        taken = self._accept(gain)
        done = rows[taken]
        particles.places[done, one[taken]], particles.columns[done, one[taken]] = where[taken], columns[taken]
        particles.strengths[done, one[taken]] = whole[taken]
        particles.centre[done] = centre[taken]
        particles.residual[done] = residual[taken]
        self._remove(particles, done, two[taken])
        return list(np.sqrt(_squares((first - second)[taken])) / self._longest)

    def _halved(self, fewer: Integers) -> Floats:
        """Factor of the centre of strengths when a source joins k = ``fewer`` sources: k/(k+1) or 1, at random."""
        if not self.prior.alike:
            return np.ones(len(fewer))
        return np.where(self.bits.uniforms(len(fewer)) < 0.5, fewer / (fewer + 1), 1.0)

    def _worth_of_two(
        self,
        particles: Particles,
        rows: Integers,
        which: tuple[Integers, Integers],
        fewer: Integers,
        strengths: tuple[Floats, Floats],
        away: Floats,
        spread: float,
        centre_apart: Floats,
        centre_together: Floats,
    ) -> Floats:
        """Log ratio of prior over proposal for a split: two sources against one, without the likelihood."""
        prior, each = self.prior, np.arange(len(rows))
        others = particles.strengths[rows]
        others[each, which[0]] = 0.0
        others[each, which[1]] = 0.0
        together = np.column_stack([others, strengths[0] + strengths[1]])
        apart = np.column_stack([others, *strengths])
        alike = particles.spread[rows]
        gain = prior.log_number(fewer + 1, centre_apart) - prior.log_number(fewer, centre_together)
        gain += prior.log_strengths(centre_apart, alike, apart) - prior.log_strengths(centre_together, alike, together)
        proposal = -_squares(away) / (2 * spread**2) - away.shape[1] * math.log(spread * math.sqrt(2 * math.pi))
        return np.asarray(gain - self._log_volume + np.log(strengths[0] + strengths[1]) - proposal)

    def _both(
        self,
        particles: Particles,
        rows: Integers,
        which: tuple[Integers, Integers],
        places: tuple[Places, Places],
        strengths: tuple[Floats, Floats],
        *,
        prior: bool = False,
    ) -> Booleans:
        """Propose and accept changes of two sources of some particles.

        Strengths that are not positive and places outside of the space are rejected. ``prior`` says whether the move
        changes the prior density of the strengths.
        """
        gain = np.where((strengths[0] > 0) & (strengths[1] > 0), 0.0, -np.inf)
        if self.space.continuous:
            inside = self._inside(places[0]) & self._inside(places[1])
            gain = np.where(inside, gain, -np.inf)
            kept = tuple(
                np.where(inside[:, None], new, particles.places[rows, j]) for j, new in zip(which, places, strict=True)
            )
            columns = self.space.columns(np.concatenate(kept)).reshape(2, len(rows), -1)
        else:
            columns = np.stack([particles.columns[rows, j] for j in which])
        residual = particles.residual[rows].copy()
        changed = particles.strengths[rows]
        for j, strength, column in zip(which, strengths, columns, strict=True):
            residual += particles.strengths[rows, j][:, None] * particles.columns[rows, j] - strength[:, None] * column
            changed[np.arange(len(rows)), j] = strength
        gain = gain - self.beta / 2 * (_squares(residual) - _squares(particles.residual[rows]))
        if prior:
            about = particles.centre[rows], particles.spread[rows]
            gain = gain + self.prior.log_strengths(*about, changed)
            gain = gain - self.prior.log_strengths(*about, particles.strengths[rows])
        taken = self._accept(gain)
        done = rows[taken]
        for j, place, strength, column in zip(which, places, strengths, columns, strict=True):
            particles.places[done, j[taken]] = place[taken]
            particles.strengths[done, j[taken]] = strength[taken]
            particles.columns[done, j[taken]] = column[taken]
        particles.residual[done] = residual[taken]
        return taken

    # ── parts of moves ──────────────────────────────────────────────────────────────────────────────────────────

    def _one(self, particles: Particles) -> Integers:
        """Draw the index of one source of each particle."""
        return (self.bits.uniforms(len(particles.number)) * particles.number).astype(np.int64)

    def _pairs(
        self, particles: Particles, rows: Integers
    ) -> tuple[tuple[Integers, Integers], tuple[Places, Places], tuple[Floats, Floats]]:
        """Draw an ordered pair of sources of some particles; return their indices, places and strengths."""
        number = particles.number[rows]
        one = (self.bits.uniforms(len(rows)) * number).astype(np.int64)
        two = (self.bits.uniforms(len(rows)) * (number - 1)).astype(np.int64)
        two += two >= one
        places = particles.places[rows, one], particles.places[rows, two]
        return (one, two), places, (particles.strengths[rows, one], particles.strengths[rows, two])

    def _evidence(self, particles: Particles, columns: Floats, rest: Floats) -> Floats:
        return self._one_more(particles.centre, particles.spread, columns, rest)

    def _one_more(self, centre: Floats, spread: Floats, columns: Floats, rest: Floats) -> Floats:
        """Log evidence for one more source with these columns, with its strength integrated out."""
        pull, weight = np.einsum("nr,nr->n", columns, rest), _squares(columns)
        return self.prior.log_integral(centre, spread, self.beta * pull, self.beta * weight)

    def _aim(self, centre: Floats, spread: Floats, rest: Floats) -> Floats:
        """Proposal probabilities of targets for each particle, as running sums: high where a source fits the residual.

        Any positive numbers are valid as a proposal. The density at the best strength is used, because it is fast.
        """
        pull, weight = self.beta * (rest @ self.space.table), self.beta * self._weights
        log = self.prior.best(centre[:, None], spread[:, None], pull, weight)
        running = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
        return np.asarray(running / running[:, -1:])

    def _proposed(self, aim: Floats) -> tuple[Places, Floats]:
        """Propose a place for each particle; also return its proposal density over the prior density."""
        anywhere = self.bits.uniforms(len(aim)) < _ANYWHERE
        target = (aim < self.bits.uniforms(len(aim))[:, None]).sum(axis=1)
        aimed = self.space.at(np.minimum(target, aim.shape[1] - 1), self.bits)
        places = np.where(_wide(anywhere, aimed), self.space.draw(len(aim), self.bits), aimed)
        return places, self._offered(aim, places)

    def _offered(self, aim: Floats, places: Places) -> Floats:
        """Proposal density of places over the prior density."""
        target = self.space.target_of(places)
        rows = np.arange(len(aim))
        below = np.where(target > 0, aim[rows, np.maximum(target, 1) - 1] if aim.shape[1] > 1 else 0.0, 0.0)
        chance = np.where(target >= 0, aim[rows, np.maximum(target, 0)] - below, 0.0)
        return np.asarray(_ANYWHERE + (1 - _ANYWHERE) * chance * aim.shape[1] / self.space.share)

    def _put(
        self,
        particles: Particles,
        taken: Booleans,
        which: Integers,
        places: Places,
        columns: Floats,
        rest: Floats,
        redraw: Booleans | None = None,
    ) -> None:
        """Put a source at its new place in particles whose move was accepted, then draw its strength again.

        Strengths are drawn again in the particles of ``redraw``, or in all particles if ``redraw`` is None.
        """
        done = np.flatnonzero(taken)
        particles.places[done, which[done]] = places[done]
        particles.columns[done, which[done]] = columns[done]
        fresh = np.arange(len(which)) if redraw is None else np.flatnonzero(redraw)
        held, left = particles.columns[fresh, which[fresh]], rest[fresh]
        pull, weight = np.einsum("nr,nr->n", held, left), _squares(held)
        about = particles.centre[fresh], particles.spread[fresh]
        uniforms = self.bits.uniforms(len(fresh))
        strengths = self.prior.conditional(*about, self.beta * pull, self.beta * weight, uniforms)
        particles.strengths[fresh, which[fresh]] = strengths
        particles.residual[fresh] = left - strengths[:, None] * held

    def _remove(self, particles: Particles, rows: Integers, which: Integers) -> None:
        """Remove a source from some particles; the last source takes its index. The caller updates the residual."""
        particles.number[rows] -= 1
        last = particles.number[rows]
        for part in (particles.places, particles.strengths, particles.columns):
            part[rows, which] = part[rows, last]
        particles.strengths[rows, last] = 0.0
        particles.columns[rows, last] = 0.0

    def _accept(self, gain: Floats) -> Booleans:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.bits.uniforms(len(gain))) < gain)

    def _length(self, move: str, count: int) -> Floats:
        """Draw log-normal lengths of steps around the tuned length of a kind of move."""
        return np.asarray(self.lengths.setdefault(move, _FIRST_LENGTH) * np.exp(normals(self.bits, count)))

    def _tune(self, move: str, accepted: np.floating) -> None:
        if self.tuned:
            self.lengths[move] = min(1.0, self.lengths[move] * math.exp(float(accepted) - _WANTED))

    def _inside(self, places: Places) -> Booleans:
        return np.asarray(((places >= self.space.low) & (places <= self.space.high)).all(axis=1))


def _squares(vectors: Floats) -> Floats:
    return np.asarray(np.einsum("nr,nr->n", vectors, vectors))


def _wide(flags: Booleans, places: Places) -> Booleans:
    """Reshape one flag per particle so that it can select places."""
    return flags[:, None] if places.ndim == 2 else flags
