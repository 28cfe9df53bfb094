"""Moves that keep guesses of sources true to the posterior (reversible jumps, Green 1995).

Every move proposes a change to each guess and accepts it with the probability that leaves

    p(k) · Π p(sⱼ | k) · Π p(xⱼ) · exp(−β/2 · ‖y − Σ sⱼ g(xⱼ)‖²)

as it is. At β = 1 that is the posterior of k sources at places xⱼ with strengths sⱼ; smaller β make it flatter. Where a
move changes one source only, its strength is integrated out and drawn afresh afterwards, so no strength holds a place
back. The order of sources means nothing: a new one goes to the end, and the last one fills the gap of one that leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from heathaze.privacy.randomness import Randomness
from heathaze.sensors.recovery._prior import ODDS, SPREADS, Prior
from heathaze.sensors.recovery._space import Guesses, Places, Space, normals
from heathaze.types import Booleans, Floats, Integers

_ANYWHERE = 0.1
"""Part of all jumps that go to a uniform place, so that a jump can always be taken back."""

_WANTED = 0.3
"""Part of steps that should be accepted; their length is tuned to that between sweeps."""


@dataclass(eq=False)
class Moves:
    """What a sweep needs to know. ``lengths`` of steps are tuned as it goes, unless ``tuned`` is off."""

    space: Space
    prior: Prior
    bits: Randomness
    heat: float = 1.0
    tuned: bool = True
    lengths: dict[str, float] = field(default_factory=dict)

    def sweep(self, guesses: Guesses) -> None:
        """Each kind of move that applies, once or more."""
        for move in self.kinds():
            move(guesses)

    def kinds(self) -> Sequence[Callable[[Guesses], None]]:
        """The moves of one sweep."""
        chosen: list[Callable[[Guesses], None]] = [self.walk, self.jump, self.walk]
        if not self.prior.counted:
            chosen += [self.birth_or_death, self.walk, self.birth_or_death]
            if self.space.continuous and not self.prior.fixed:
                chosen.append(self.split_or_merge)
        if self.prior.alike:
            chosen.append(self.liken)
        if self.prior.most > 1:
            if self.space.continuous:
                chosen.append(self.apart)
            if not self.prior.fixed:
                chosen.append(self.trade)
        return chosen

    # ── one source, its strength integrated out ─────────────────────────────────────────────────────────────────

    def walk(self, guesses: Guesses) -> None:
        """One source to a place near it."""
        which = self._one(guesses)
        rows = np.arange(len(which))
        rest = _without(guesses, which)
        moved, back = self.space.step(guesses.places[rows, which], self._length("walk", len(rows)), self.bits)
        columns = self.space.columns(moved)
        gain = self._evidence(guesses, columns, rest)
        gain -= self._evidence(guesses, guesses.columns[rows, which], rest)
        taken = self._accept(gain + back)
        self._tune("walk", taken.mean())
        self._put(guesses, taken, which, moved, columns, rest)

    def jump(self, guesses: Guesses) -> None:
        """One source to anywhere, likeliest where the others leave most unexplained."""
        which = self._one(guesses)
        rows = np.arange(len(which))
        rest = _without(guesses, which)
        aim = self._aim(guesses.centre, guesses.spread, rest)
        moved, offered = self._proposed(aim)
        columns = self.space.columns(moved)
        gain = self._evidence(guesses, columns, rest) - np.log(offered)
        here = guesses.places[rows, which]
        gain -= self._evidence(guesses, guesses.columns[rows, which], rest) - np.log(self._offered(aim, here))
        self._put(guesses, self._accept(gain), which, moved, columns, rest)

    def birth_or_death(self, guesses: Guesses) -> None:
        """One source more, where the others leave most unexplained, or any one less: a coin decides.

        Where strengths are alike, another coin decides whether those of all others (and their centre) are scaled by
        k/(k+1), or (k+1)/k, so that the sum stays. The density of strengths about the centre makes up for the
        determinant of that.
        """
        born = self.bits.uniforms(len(guesses.number)) < 0.5
        possible = np.where(born, guesses.number < self.prior.most, guesses.number > 1)
        which = np.minimum(np.where(born, guesses.number, self._one(guesses)), self.prior.most - 1)
        rows = np.arange(len(which))
        fewer = np.maximum(guesses.number - ~born, 1)
        more = np.minimum(fewer + 1, self.prior.most)
        scale = np.ones(len(rows))
        if self.prior.alike:
            scale = np.where(self.bits.uniforms(len(rows)) < 0.5, fewer / (fewer + 1), 1.0)
        # What the k sources leave unexplained when there are k of them, and as they would be among k+1.
        alone = np.where(born[:, None], guesses.residual, _without(guesses, which))
        rescale = np.where(born, scale, 1 / scale)
        scaled = guesses.readings - rescale[:, None] * (guesses.readings - alone)
        among = np.where(born[:, None], scaled, alone)
        left = np.where(born[:, None], alone, scaled)
        centre_among = guesses.centre * np.where(born, scale, 1.0)
        centre_left = centre_among / scale
        aim = self._aim(centre_among, guesses.spread, among)
        fresh, _ = self._proposed(aim)
        places = np.where(_wide(born, fresh), fresh, guesses.places[rows, which])
        columns = np.where(born[:, None], self.space.columns(fresh), guesses.columns[rows, which])
        # Which of k+1 sources leaves and where among them a new one stands have the same probability and cancel.
        gain = self.prior.log_number(more, centre_among) - self.prior.log_number(fewer, centre_left)
        gain -= self.heat / 2 * (_squares(among) - _squares(left))
        gain += self._one_more(centre_among, guesses.spread, columns, among) - np.log(self._offered(aim, places))
        taken = self._accept(np.where(born, gain, -gain)) & possible
        births, deaths = taken & born, np.flatnonzero(taken & ~born)
        guesses.strengths[taken] *= rescale[taken][:, None]
        guesses.centre[taken] *= rescale[taken]
        guesses.number[births] += 1
        self._put(guesses, births, which, places, columns, among, redraw=births)
        guesses.residual[deaths] = left[deaths]
        self._remove(guesses, deaths, which[deaths])

    # ── strengths of all ────────────────────────────────────────────────────────────────────────────────────────

    def liken(self, guesses: Guesses) -> None:
        """The centre of strengths and how far they spread; then all strengths and their centre by one factor."""
        count = len(guesses.number)
        log = np.stack(
            [self.prior.log_strengths(guesses.centre, np.full(count, spread), guesses.strengths) for spread in SPREADS]
        )
        running = np.cumsum(np.exp(log - log.max(axis=0)) * ODDS[:, None], axis=0)
        drawn = (running < self.bits.uniforms(count) * running[-1]).sum(axis=0)
        guesses.spread = SPREADS[np.minimum(drawn, len(SPREADS) - 1)]
        moved = guesses.centre * np.exp(normals(self.bits, count) * guesses.spread)
        gain = self.prior.log_number(guesses.number, moved)
        gain -= self.prior.log_number(guesses.number, guesses.centre)
        gain += self.prior.log_strengths(moved, guesses.spread, guesses.strengths)
        gain -= self.prior.log_strengths(guesses.centre, guesses.spread, guesses.strengths)
        guesses.centre = np.where(self._accept(gain), moved, guesses.centre)
        factor = np.exp(normals(self.bits, count) * self._length("scale", count))
        residual = guesses.readings - factor[:, None] * (guesses.readings - guesses.residual)
        # Densities of strengths fall by the factor, once for each; the determinant of scaling them makes up for it.
        gain = self.prior.log_number(guesses.number, guesses.centre * factor)
        gain -= self.prior.log_number(guesses.number, guesses.centre)
        gain -= self.heat / 2 * (_squares(residual) - _squares(guesses.residual))
        taken = self._accept(gain)
        self._tune("scale", taken.mean())
        guesses.centre[taken] *= factor[taken]
        guesses.strengths[taken] *= factor[taken][:, None]
        guesses.residual[taken] = residual[taken]

    # ── two sources ─────────────────────────────────────────────────────────────────────────────────────────────

    def apart(self, guesses: Guesses) -> None:
        """Two sources towards or away from each other, their centre of mass left where it is."""
        rows, one, two = self._pairs(guesses)
        if not len(rows):
            return
        share = guesses.strengths[rows, one] / (guesses.strengths[rows, one] + guesses.strengths[rows, two])
        apart = self._shift("apart", guesses.places[rows, one])
        first = guesses.places[rows, one] + apart * (1 - share)[:, None]
        second = guesses.places[rows, two] - apart * share[:, None]
        strengths = guesses.strengths[rows, one], guesses.strengths[rows, two]
        taken = self._both(guesses, rows, (one, two), (first, second), strengths, np.zeros(len(rows)))
        self._tune("apart", taken.mean())

    def trade(self, guesses: Guesses) -> None:
        """Some strength from one source to another; where space allows, both shift to keep their centre of mass.

        With strength δ of the sum S moved, both shift by −δ(x₁ − x₂)/S. The determinant of that is 1.
        """
        rows, one, two = self._pairs(guesses)
        if not len(rows):
            return
        total = guesses.strengths[rows, one] + guesses.strengths[rows, two]
        # Lengths do not depend on the guess except by the sum, which stays.
        moved = normals(self.bits, len(rows)) * self._length("trade", len(rows)) * total
        strengths = guesses.strengths[rows, one] + moved, guesses.strengths[rows, two] - moved
        first, second = guesses.places[rows, one], guesses.places[rows, two]
        if self.space.continuous:
            shift = (moved / total)[:, None] * (first - second)
            first, second = first - shift, second - shift
        positive = (strengths[0] > 0) & (strengths[1] > 0)
        taken = self._both(
            guesses, rows, (one, two), (first, second), strengths, np.where(positive, 0.0, -np.inf), prior=True
        )
        self._tune("trade", taken.mean())

    def split_or_merge(self, guesses: Guesses) -> None:
        """One source into two with the same sum and centre of mass, or two into one: a coin decides.

        s₁ = u·s, s₂ = (1 − u)·s, x₁ = x + (1 − u)·d, x₂ = x − u·d with u uniform and d normal; the determinant is s.
        Which source splits and which ordered pair merges cancel: 1/k · 1/(k+1) either way.
        """
        splits = self.bits.uniforms(len(guesses.number)) < 0.5
        spread = float(self._length("split", 1)[0]) * self._longest
        done = self._split(guesses, np.flatnonzero(splits & (guesses.number < self.prior.most)), spread)
        done += self._merge(guesses, np.flatnonzero(~splits & (guesses.number > 1)), spread)
        # Both halves succeed seldom; the spread follows what succeeds instead of how often.
        if self.tuned and done:
            self.lengths["split"] = min(1.0, 0.7 * self.lengths["split"] + 0.3 * float(np.median(done)))

    def _split(self, guesses: Guesses, rows: Integers, spread: float) -> list[float]:
        if not len(rows):
            return []
        which = (self.bits.uniforms(len(rows)) * guesses.number[rows]).astype(np.int64)
        whole, where = guesses.strengths[rows, which], guesses.places[rows, which]
        part = self.bits.uniforms(len(rows))
        away = normals(self.bits, *where.shape) * spread
        first, second = where + (1 - part)[:, None] * away, where - part[:, None] * away
        inside = self._inside(first) & self._inside(second)
        first, second = np.where(inside[:, None], first, where), np.where(inside[:, None], second, where)
        columns = self.space.columns(np.concatenate([first, second])).reshape(2, len(rows), -1)
        removed = whole[:, None] * guesses.columns[rows, which]
        residual = guesses.residual[rows] + removed
        residual -= (part * whole)[:, None] * columns[0] + ((1 - part) * whole)[:, None] * columns[1]
        halved = self._halved(guesses.number[rows])
        centre = guesses.centre[rows] * halved
        gain = self._worth_of_two(
            guesses,
            rows,
            (which, which),
            guesses.number[rows],
            (part * whole, (1 - part) * whole),
            away,
            spread,
            centre,
            guesses.centre[rows],
        )
        gain -= self.heat / 2 * (_squares(residual) - _squares(guesses.residual[rows]))
        taken = self._accept(gain) & inside
        done, last = rows[taken], guesses.number[rows[taken]]
        guesses.places[done, which[taken]], guesses.places[done, last] = first[taken], second[taken]
        guesses.columns[done, which[taken]], guesses.columns[done, last] = columns[0, taken], columns[1, taken]
        guesses.strengths[done, which[taken]] = (part * whole)[taken]
        guesses.strengths[done, last] = ((1 - part) * whole)[taken]
        guesses.residual[done] = residual[taken]
        guesses.centre[done] = centre[taken]
        guesses.number[done] += 1
        return list(np.sqrt(_squares(away[taken])) / self._longest)

    def _merge(self, guesses: Guesses, rows: Integers, spread: float) -> list[float]:
        if not len(rows):
            return []
        one, two = self._two(guesses.number[rows])
        first, second = guesses.places[rows, one], guesses.places[rows, two]
        strengths = guesses.strengths[rows, one], guesses.strengths[rows, two]
        whole = strengths[0] + strengths[1]
        where = (strengths[0][:, None] * first + strengths[1][:, None] * second) / whole[:, None]
        columns = self.space.columns(where)
        residual = guesses.residual[rows] - whole[:, None] * columns
        residual += strengths[0][:, None] * guesses.columns[rows, one]
        residual += strengths[1][:, None] * guesses.columns[rows, two]
        fewer = guesses.number[rows] - 1
        centre = guesses.centre[rows] / self._halved(fewer)
        gain = -self._worth_of_two(
            guesses, rows, (one, two), fewer, strengths, first - second, spread, guesses.centre[rows], centre
        )
        gain -= self.heat / 2 * (_squares(residual) - _squares(guesses.residual[rows]))
        taken = self._accept(gain)
        done = rows[taken]
        guesses.places[done, one[taken]], guesses.columns[done, one[taken]] = where[taken], columns[taken]
        guesses.strengths[done, one[taken]] = whole[taken]
        guesses.centre[done] = centre[taken]
        guesses.residual[done] = residual[taken]
        self._remove(guesses, done, two[taken])
        return list(np.sqrt(_squares((first - second)[taken])) / self._longest)

    def _halved(self, fewer: Integers) -> Floats:
        """By what the centre is scaled when one of so many sources becomes two: as the mean strength, or not at all."""
        if not self.prior.alike:
            return np.ones(len(fewer))
        return np.where(self.bits.uniforms(len(fewer)) < 0.5, fewer / (fewer + 1), 1.0)

    def _worth_of_two(
        self,
        guesses: Guesses,
        rows: Integers,
        which: tuple[Integers, Integers],
        fewer: Integers,
        strengths: tuple[Floats, Floats],
        away: Floats,
        spread: float,
        centre_apart: Floats,
        centre_together: Floats,
    ) -> Floats:
        """Logarithm of prior and proposal for two sources against one of the same sum, likelihood apart."""
        prior, each = self.prior, np.arange(len(rows))
        others = guesses.strengths[rows]
        others[each, which[0]] = 0.0
        others[each, which[1]] = 0.0
        together = np.column_stack([others, strengths[0] + strengths[1]])
        apart = np.column_stack([others, *strengths])
        alike = guesses.spread[rows]
        gain = prior.log_number(fewer + 1, centre_apart) - prior.log_number(fewer, centre_together)
        gain += prior.log_strengths(centre_apart, alike, apart) - prior.log_strengths(centre_together, alike, together)
        proposal = -_squares(away) / (2 * spread**2) - away.shape[1] * math.log(spread * math.sqrt(2 * math.pi))
        return np.asarray(gain - self._log_volume + np.log(strengths[0] + strengths[1]) - proposal)

    def _both(
        self,
        guesses: Guesses,
        rows: Integers,
        which: tuple[Integers, Integers],
        places: tuple[Places, Places],
        strengths: tuple[Floats, Floats],
        gain: Floats,
        *,
        prior: bool = False,
    ) -> Booleans:
        """Change two sources of some guesses, or do not; places outside and impossible strengths are refused."""
        if self.space.continuous:
            inside = self._inside(places[0]) & self._inside(places[1])
            gain = np.where(inside, gain, -np.inf)
            kept = tuple(
                np.where(inside[:, None], new, guesses.places[rows, j]) for j, new in zip(which, places, strict=True)
            )
            columns = self.space.columns(np.concatenate(kept)).reshape(2, len(rows), -1)
        else:
            columns = np.stack([guesses.columns[rows, j] for j in which])
        residual = guesses.residual[rows].copy()
        changed = guesses.strengths[rows]
        for j, strength, column in zip(which, strengths, columns, strict=True):
            residual += guesses.strengths[rows, j][:, None] * guesses.columns[rows, j] - strength[:, None] * column
            changed[np.arange(len(rows)), j] = strength
        gain = gain - self.heat / 2 * (_squares(residual) - _squares(guesses.residual[rows]))
        if prior:
            about = guesses.centre[rows], guesses.spread[rows]
            gain = gain + self.prior.log_strengths(*about, changed)
            gain = gain - self.prior.log_strengths(*about, guesses.strengths[rows])
        taken = self._accept(gain)
        done = rows[taken]
        for j, place, strength, column in zip(which, places, strengths, columns, strict=True):
            guesses.places[done, j[taken]] = place[taken]
            guesses.strengths[done, j[taken]] = strength[taken]
            guesses.columns[done, j[taken]] = column[taken]
        guesses.residual[done] = residual[taken]
        return taken

    # ── parts of moves ──────────────────────────────────────────────────────────────────────────────────────────

    def _one(self, guesses: Guesses) -> Integers:
        """A source of every guess."""
        return (self.bits.uniforms(len(guesses.number)) * guesses.number).astype(np.int64)

    def _pairs(self, guesses: Guesses) -> tuple[Integers, Integers, Integers]:
        """Guesses with more than one source, and an ordered pair of sources of each."""
        rows = np.flatnonzero(guesses.number > 1)
        return rows, *self._two(guesses.number[rows])

    def _two(self, number: Integers) -> tuple[Integers, Integers]:
        one = (self.bits.uniforms(len(number)) * number).astype(np.int64)
        two = (self.bits.uniforms(len(number)) * (number - 1)).astype(np.int64)
        return one, two + (two >= one)

    def _evidence(self, guesses: Guesses, columns: Floats, rest: Floats) -> Floats:
        return self._one_more(guesses.centre, guesses.spread, columns, rest)

    def _one_more(self, centre: Floats, spread: Floats, columns: Floats, rest: Floats) -> Floats:
        """Logarithm of how much better a source with these columns, of any strength, explains the rest than none."""
        pull, weight = np.einsum("nr,nr->n", columns, rest), _squares(columns)
        return self.prior.log_integral(centre, spread, self.heat * pull, self.heat * weight)

    def _aim(self, centre: Floats, spread: Floats, rest: Floats) -> Floats:
        """For each guess the running sum of probabilities of the targets: high where a source would explain the rest.

        Any positive numbers serve as a proposal; those for the best strength are quick.
        """
        pull, weight = self.heat * (rest @ self.space.table), self.heat * self._weights
        log = self.prior.best(centre[:, None], spread[:, None], pull, weight)
        running = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
        return np.asarray(running / running[:, -1:])

    def _proposed(self, aim: Floats) -> tuple[Places, Floats]:
        """A place for each guess, and how much likelier it was proposed than by the prior."""
        anywhere = self.bits.uniforms(len(aim)) < _ANYWHERE
        target = (aim < self.bits.uniforms(len(aim))[:, None]).sum(axis=1)
        aimed = self.space.at(np.minimum(target, aim.shape[1] - 1), self.bits)
        places = np.where(_wide(anywhere, aimed), self.space.draw(len(aim), self.bits), aimed)
        return places, self._offered(aim, places)

    def _offered(self, aim: Floats, places: Places) -> Floats:
        """How much likelier these places are proposed than by the prior."""
        target = self.space.target_of(places)
        rows = np.arange(len(aim))
        below = np.where(target > 0, aim[rows, np.maximum(target, 1) - 1] if aim.shape[1] > 1 else 0.0, 0.0)
        chance = np.where(target >= 0, aim[rows, np.maximum(target, 0)] - below, 0.0)
        return np.asarray(_ANYWHERE + (1 - _ANYWHERE) * chance * aim.shape[1] / self.space.share)

    def _put(
        self,
        guesses: Guesses,
        taken: Booleans,
        which: Integers,
        places: Places,
        columns: Floats,
        rest: Floats,
        redraw: Booleans | None = None,
    ) -> None:
        """Put a source where the move was accepted; draw strengths afresh there and, unless told, everywhere."""
        done = np.flatnonzero(taken)
        guesses.places[done, which[done]] = places[done]
        guesses.columns[done, which[done]] = columns[done]
        fresh = np.arange(len(which)) if redraw is None else np.flatnonzero(redraw)
        held, left = guesses.columns[fresh, which[fresh]], rest[fresh]
        pull, weight = np.einsum("nr,nr->n", held, left), _squares(held)
        about = guesses.centre[fresh], guesses.spread[fresh]
        uniforms = self.bits.uniforms(len(fresh))
        strengths = self.prior.conditional(*about, self.heat * pull, self.heat * weight, uniforms)
        guesses.strengths[fresh, which[fresh]] = strengths
        guesses.residual[fresh] = left - strengths[:, None] * held

    def _remove(self, guesses: Guesses, rows: Integers, which: Integers) -> None:
        """Take a source out of some guesses; the last one fills its gap. The residual is the caller's."""
        guesses.number[rows] -= 1
        last = guesses.number[rows]
        for part in (guesses.places, guesses.strengths, guesses.columns):
            part[rows, which] = part[rows, last]
        guesses.strengths[rows, last] = 0.0
        guesses.columns[rows, last] = 0.0

    def _accept(self, gain: Floats) -> Booleans:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.bits.uniforms(len(gain))) < gain)

    def _length(self, move: str, count: int) -> Floats:
        """Lengths of steps around the tuned one, some much shorter and some longer."""
        usual = self.lengths.setdefault(move, 0.3)
        if move == "split":
            return np.full(count, usual)
        return np.asarray(usual * np.exp(normals(self.bits, count)))

    def _tune(self, move: str, accepted: np.floating) -> None:
        if self.tuned:
            self.lengths[move] = min(1.0, self.lengths[move] * math.exp(float(accepted) - _WANTED))

    def _shift(self, move: str, places: Places) -> Floats:
        return np.asarray(normals(self.bits, *places.shape) * self._length(move, len(places))[:, None] * self._longest)

    def _inside(self, places: Places) -> Booleans:
        return np.asarray(((places >= self.space.low) & (places <= self.space.high)).all(axis=1))

    def __post_init__(self) -> None:
        self._weights = _squares(self.space.table.T)
        self._longest = float((self.space.high - self.space.low).max())
        self._log_volume = float(np.log(self.space.high - self.space.low).sum())


def _without(guesses: Guesses, which: Integers) -> Floats:
    """The residual if one source were not there."""
    rows = np.arange(len(which))
    return np.asarray(guesses.residual + guesses.strengths[rows, which][:, None] * guesses.columns[rows, which])


def _squares(vectors: Floats) -> Floats:
    return np.asarray(np.einsum("nr,nr->n", vectors, vectors))


def _wide(flags: Booleans, places: Places) -> Booleans:
    """Flags shaped to choose among places."""
    return flags[:, None] if places.ndim == 2 else flags
