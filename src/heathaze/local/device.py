"""Device of the local model: it turns a position into a randomised report, and only the report leaves the device.

This module needs the standard library, numpy and ``cryptography``. It uses no network, no compiler and no server.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import check_near
from heathaze.errors import BudgetExceeded, InvalidInput, UnreadableData, kind_of
from heathaze.files import replacing
from heathaze.local.mechanism import Estimator, fingerprint, promise, warn_if_weak_report
from heathaze.local.reports import DEVICE, Reports
from heathaze.privacy.door import Receipt, pay
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import decimal
from heathaze.privacy.randomness import Randomness, fresh_bytes
from heathaze.types import Floats, Integers


def randomize(
    mechanism: Estimator,
    points: npt.ArrayLike,
    *,
    unit: str | Unit = Unit.PERSON,
    randomness: Randomness | None = None,
) -> Reports:
    """Randomise positions: draw one report for each. A position outside the map counts as the nearest cell of the map.

    This function plays the role of many devices that report once each. The function charges no ledger. On one
    person's device, use :class:`Device`.

    Args:
        mechanism: How to randomise, for example ``hz.local.DiskArea(grid, epsilon=3.5)``.
        points: Rows (x, y) in the grid's coordinates; longitude before latitude.
        unit: What each row stands for: ``"person"`` if every person has one row, or ``"visit"`` if a person may have
            several rows.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers; its reports cannot be saved.

    Returns:
        The reports, in the order of the positions.

    Raises:
        InvalidInput: A position is not two finite numbers, or the unit is unknown.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.local import RandomizedResponse
    >>> coin = RandomizedResponse(Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), epsilon=10)
    >>> len(randomize(coin, [(0.5, 0.5), (1.5, 0.5), (1.7, 0.2)]))
    3
    """
    warn_if_weak_report(mechanism)
    cells, unit = _cells(mechanism, points), Unit.parse(unit)
    receipt = pay(promise(mechanism, unit), mechanism.event, randomness=randomness)
    return _draw(mechanism, cells, unit, receipt)


def _draw(mechanism: Estimator, cells: Integers, unit: Unit, receipt: Receipt) -> Reports:
    """Draw the reports that were paid for; the receipt holds the randomness."""
    return Reports(mechanism, mechanism.draw(cells, receipt.randomness), unit, simulated=receipt.simulated)


def _cells(mechanism: Estimator, points: npt.ArrayLike) -> Integers:
    """The index of the grid cell of each position, counted row by row."""
    positions = np.atleast_2d(_numbers(points))
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise InvalidInput("Positions are not rows of two numbers; give x and y, or longitude and latitude.")
    if not np.isfinite(positions).all():
        raise InvalidInput(
            "A position is not finite; leave out positions that were not measured. Nothing was reported."
        )
    row, col = mechanism.grid.nearest_cell(positions[:, 0], positions[:, 1])
    return row * mechanism.grid.cols + col


def _numbers(points: npt.ArrayLike) -> Floats:
    try:
        return np.asarray(points, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput("A position is not two numbers; give x and y, or longitude and latitude.") from None


class Device:
    """One person's device. It randomises positions, pays for reports from the person's ledger, and keeps the last one.

    The memory is a file that holds a random secret and the last report for each set of parameters, never a position.
    The device's name is a hash of the secret and of the parameters' fingerprint. A server therefore knows a device by
    one name for each set of parameters, and names for different parameters cannot be linked. Only one process at a
    time may use a memory.

    Args:
        mechanism: How to randomise; the server has the same mechanism.
        ledger: The person's own budget. A report that exceeds the budget is refused, and nothing leaves the device.
        memory: The file for the last report and the device's secret. With a memory, :meth:`again` can repeat the
            report at no cost, and a server can refuse a second report.

    Raises:
        InvalidInput: The mechanism is not a mechanism of the local model.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.local import DiskArea
    >>> device = Device(DiskArea(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon=3.5))
    >>> len(device.randomize((0.2, 0.7)))
    1
    """

    def __init__(self, mechanism: Estimator, *, ledger: Ledger | None = None, memory: str | Path | None = None) -> None:
        if not hasattr(mechanism, "draw"):
            raise InvalidInput(
                f"The mechanism is {kind_of(mechanism)}, which needs a curator; give a device a mechanism of "
                "hz.local, such as DiskArea."
            )
        self.mechanism = mechanism
        self.ledger = ledger
        self.memory = None if memory is None else Path(memory)

    def randomize(self, point: npt.ArrayLike, *, far: bool = False, randomness: Randomness | None = None) -> Reports:
        """Report a position: check the position, charge the ledger, draw the report, and store it in the memory.

        The charge is written to the disk before the report is drawn. A crash may waste budget, but never overspends it.
        A position outside the map counts as the nearest cell of the map. A device that sent no report from outside the
        map would reveal that it is outside.

        A position with swapped coordinates, or farther outside the map than the map is wide or high, is probably a
        mistake, and is refused. The error stays on the device. The missing report, however, may reveal that the person
        is far away. A program that may run far from the map should therefore give ``far=True``.

        Args:
            point: The position (x, y) in the grid's coordinates; longitude before latitude.
            far: Whether to report the nearest cell for a position far outside the map, instead of refusing the
                position.
            randomness: Leave it out. ``Simulation(seed)`` is for tests; its reports are neither stored in the memory
                nor saved.

        Returns:
            One report.

        Raises:
            InvalidInput: The position is not two finite numbers, or far outside the map. Nothing was charged.
            UnreadableData: The memory is damaged. Nothing was charged.
            CannotWrite: The memory cannot be written. Nothing was charged.
            BudgetExceeded: The person's budget does not allow another report. Nothing was charged and nothing reported.
        """
        position = _numbers(point)
        if position.shape != (2,):
            raise InvalidInput("A device reports one position at a time; give x and y, or longitude and latitude.")
        cells = _cells(self.mechanism, position)
        if not far:
            check_near(self.mechanism.grid, *position.tolist())
        warn_if_weak_report(self.mechanism)
        remembered = self._remembered()
        if self.memory is not None:
            with replacing(self.memory, keep=False):
                pass  # tests whether the memory can be written, before anything is paid
        receipt = self._pay(randomness, repeatable=self._has_answer(remembered))
        drawn = _draw(self.mechanism, cells, Unit.PERSON, receipt)
        if self.memory is None:
            return drawn
        name = remembered.get("name") or fresh_bytes(16).hex()
        answers = remembered.get("answers", {}) | {fingerprint(self.mechanism): drawn.values[0].tolist()}
        if not drawn.simulated:
            with replacing(self.memory) as [draft]:
                draft.write_text(json.dumps({"name": name, "answers": answers}), encoding="utf-8")
        return self._signed(drawn, name)

    def _pay(self, randomness: Randomness | None, *, repeatable: bool) -> Receipt:
        try:
            return pay(promise(self.mechanism), self.mechanism.event, ledger=self.ledger, randomness=randomness)
        except BudgetExceeded:
            assert self.ledger is not None
            offer = " The last answer can be repeated at no cost: again(), or --again." if repeatable else ""
            raise BudgetExceeded(
                f"A report costs ε = {decimal(self.mechanism.epsilon)}, and {self.ledger.name} has "
                f"ε = {float(self.ledger.remaining):g} left; nothing was charged and nothing reported.{offer}"
            ) from None

    def again(self) -> Reports:
        """Repeat the last report unchanged. A repeated report reveals nothing new, so it costs nothing.

        The report is the same even if the person has moved. Keeping one report for each place would not be private,
        because a server that sees the same report twice would know that the person came back.

        Returns:
            One report, under the same device name.

        Raises:
            InvalidInput: The memory holds no report to repeat.
            UnreadableData: The memory is damaged or was edited.
        """
        remembered = self._remembered()
        if not self._has_answer(remembered):
            raise InvalidInput("There is no answer to repeat; report a position first, with a memory to keep it in.")
        answer = remembered["answers"][fingerprint(self.mechanism)]
        try:
            # Build and tally the report as the server will, so that an edited report does not leave the device.
            reports = Reports(self.mechanism, np.array([answer], dtype=np.int64))
            self.mechanism.tally(reports.values)
        except (ValueError, TypeError, OverflowError):
            raise self._unusable() from None
        return self._signed(reports, remembered["name"])

    def _signed(self, reports: Reports, name: str) -> Reports:
        """Add the device's name for these parameters to the reports, and a chunk number derived from the same hash."""
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
