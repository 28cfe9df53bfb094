"""The device's half: a position goes in, a report comes out, and nothing else leaves.

Needs the standard library, numpy and ``cryptography``; no network, no compiler, no server.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import BudgetExceeded, CannotWrite, InvalidInput, UnreadableData
from heathaze.local.mechanism import Estimator
from heathaze.local.reports import DEVICE, Reports, fingerprint
from heathaze.privacy.guarantee import Guarantee, Trust, Unit
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss, decimal, warn_if_weak
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.types import Floats, Integers


def promise(mechanism: Estimator, unit: Unit = Unit.PERSON, reports: int = 1) -> Guarantee:
    """What some reports of one unit promise together: their losses add up."""
    return Guarantee(PrivacyLoss(mechanism.epsilon * reports), unit, mechanism.adjacency, Trust.LOCAL)


def warn_of(mechanism: Estimator) -> None:
    """Warn of an ε above 10 for one report; one that is a price by length depends on the unit of length."""
    if mechanism.adjacency.length is None:
        warn_if_weak(mechanism.epsilon)


def randomize(
    mechanism: Estimator,
    points: npt.ArrayLike,
    *,
    unit: str | Unit = Unit.PERSON,
    randomness: Randomness | None = None,
) -> Reports:
    """One report for each position (x, y), longitude first; positions outside the map are moved to its border.

    Knows no ledger: it is for many people at once, each of whom reports once. On a device use :class:`Device`.

    Args:
        mechanism: How to randomise, for example ``hz.local.DiskArea(grid, epsilon=3.5)``.
        points: Rows (x, y) in the grid's coordinates.
        unit: Whom each row stands for: a ``"person"``, or a ``"visit"`` of someone who may have several.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers; its reports cannot be saved.
    """
    warn_of(mechanism)
    source = SecureRandomness() if randomness is None else randomness
    simulated = type(source) is not SecureRandomness
    cells = _cells(mechanism, points)
    return Reports(mechanism, mechanism.draw(cells, source), Unit.parse(unit), simulated=simulated)


def _cells(mechanism: Estimator, points: npt.ArrayLike) -> Integers:
    """The cell of each position, numbered row by row."""
    positions = np.atleast_2d(_numbers(points))
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise InvalidInput("Positions come as rows of two numbers: x and y, or longitude and latitude.")
    if not np.isfinite(positions).all():
        raise InvalidInput("A position is not a finite number; leave out what was not measured. Nothing was reported.")
    row, col = mechanism.grid.nearest_cell(positions[:, 0], positions[:, 1])
    return row * mechanism.grid.cols + col


def _numbers(points: npt.ArrayLike) -> Floats:
    try:
        return np.asarray(points, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput("A position is not two numbers: x and y, or longitude and latitude.") from None


class Device:
    """One person's device: reports their positions, pays for each from their own ledger, and remembers what it said.

    Args:
        mechanism: How to randomise; the server has the same.
        ledger: The person's own budget. A report beyond it is refused, and nothing leaves the device.
        memory: A file in which the last answer is kept, and the name under which this device reports; then
            :meth:`again` can repeat the answer at no cost, and a server can refuse a second one.
    """

    def __init__(self, mechanism: Estimator, *, ledger: Ledger | None = None, memory: str | Path | None = None) -> None:
        if not hasattr(mechanism, "draw"):
            raise InvalidInput(
                f"A {type(mechanism).__name__} needs a curator; give a device one of hz.local, as DiskArea."
            )
        if ledger is not None and not isinstance(ledger, Ledger):
            raise InvalidInput(f"ledger is {ledger!r}; open it first: Ledger.open(path, total=…).")
        self.mechanism = mechanism
        self.ledger = ledger
        self.memory = None if memory is None else Path(memory)

    def randomize(self, point: npt.ArrayLike, *, randomness: Randomness | None = None) -> Reports:
        """Report a position: charge the ledger, draw, remember.

        The charge is on the disk before anything is drawn: a crash may waste budget, never overspend it.

        Raises:
            BudgetExceeded: The person's budget does not allow another report; nothing happened.
        """
        position = _numbers(point)
        if position.shape != (2,):
            raise InvalidInput("A device reports one position at a time: x and y, or longitude and latitude.")
        # What can be refused is refused before anything is paid.
        _cells(self.mechanism, position)
        warn_of(self.mechanism)
        remembered = self._remembered()
        if self.memory is not None:
            self._written("").unlink()
        if self.ledger is not None:
            self._charge(self.ledger, repeatable=self._has_answer(remembered))
        drawn = randomize(self.mechanism, position, randomness=randomness)
        if self.memory is None:
            return drawn
        name = remembered.get("name") or os.urandom(16).hex()
        answers = remembered.get("answers", {}) | {fingerprint(self.mechanism): drawn.values[0].tolist()}
        if not drawn.simulated:
            self._remember({"name": name, "answers": answers})
        return self._signed(drawn, name)

    def _charge(self, ledger: Ledger, *, repeatable: bool) -> None:
        try:
            ledger.charge(promise(self.mechanism), self.mechanism.event)
        except BudgetExceeded:
            offer = " The last answer can be repeated at no cost: again(), or --again." if repeatable else ""
            raise BudgetExceeded(
                f"A report costs ε = {decimal(self.mechanism.epsilon)}, and the ledger {ledger.path} has "
                f"ε = {float(ledger.remaining):g} left; nothing was charged and nothing reported.{offer}"
            ) from None

    def again(self) -> Reports:
        """The last answer, word for word: it tells nothing that was not told before, so it costs nothing.

        It is the same wherever the person is by now. An answer drawn anew for each place and kept for that place would
        not do: hearing the same answer twice would tell that they came back.
        """
        remembered = self._remembered()
        if not self._has_answer(remembered):
            raise InvalidInput("There is no answer to repeat; report a position first, with a memory to keep it in.")
        answer = remembered["answers"][fingerprint(self.mechanism)]
        try:
            # Built and tallied, as the server will: an answer that was edited does not leave.
            values = np.array([answer], dtype=np.int64)
            reports = Reports(self.mechanism, values)
            self.mechanism.tally(reports.values)
        except (ValueError, TypeError, OverflowError):
            raise self._unusable() from None
        return self._signed(reports, remembered["name"])

    def _signed(self, reports: Reports, name: str) -> Reports:
        """With the device's name: another one for every set of parameters, so that campaigns cannot be linked."""
        secret = hashlib.sha256(f"{name} {fingerprint(self.mechanism)}".encode()).digest()
        devices = np.frombuffer(secret[: DEVICE.itemsize], DEVICE)
        chunk = int.from_bytes(secret[-8:], "little")
        return Reports(reports.mechanism, reports.values, reports.unit, devices, reports.simulated, chunk)

    def _has_answer(self, remembered: Mapping[str, Any]) -> bool:
        return fingerprint(self.mechanism) in remembered.get("answers", {})

    def _remembered(self) -> dict[str, Any]:
        if self.memory is None or not self.memory.exists():
            return {}
        try:
            found = json.loads(self.memory.read_text(encoding="utf-8"))
            if not isinstance(found["name"], str) or not isinstance(found["answers"], dict):
                raise ValueError
            return dict(found)
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            raise self._unusable() from None

    def _unusable(self) -> UnreadableData:
        return UnreadableData(f"{self.memory} is not the memory of a device; name the right file, or a new one.")

    def _remember(self, known: Mapping[str, Any]) -> None:
        assert self.memory is not None
        # Beside the memory first: a crash leaves the old answer or the new one.
        draft = self._written(json.dumps(known))
        try:
            draft.replace(self.memory)
        except OSError as problem:
            raise CannotWrite(f"Cannot write {self.memory}: {(problem.strerror or 'refused').lower()}.") from None

    def _written(self, text: str) -> Path:
        """A draft beside the memory."""
        assert self.memory is not None
        draft = self.memory.with_name(f".{self.memory.name}.{os.urandom(4).hex()}.part")
        try:
            draft.write_text(text, encoding="utf-8")
        except OSError as problem:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise CannotWrite(f"Cannot write {self.memory}: {(problem.strerror or 'refused').lower()}.") from None
        return draft
