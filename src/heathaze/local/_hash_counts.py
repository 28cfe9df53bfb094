"""Compiled loop (numba) of local hashing: count, for each cell, the reports whose bucket contains the cell.

A hash function is a rotation: cell x has the value v(x) = (a·x + c) mod P, and a bucket is an interval of w values. A
step from x to x + 1 rotates the value by a. The cells of a bucket are the cells x whose value lies in the interval. The
number of steps from one cell of a bucket to the next is ``right``, which moves the value up by d₁ < w, or ``left``,
which moves the value down by d₂ < w, or ``right + left`` (three gap theorem). The loop jumps from one cell of the
bucket to the next: it makes about cells / buckets jumps for each report, instead of one step for each cell.
"""

from __future__ import annotations

import numba as nb

from heathaze.types import Integers


@nb.njit(cache=True)
def add_hits(factors: Integers, starts: Integers, widths: Integers, prime: int, counts: Integers) -> None:
    """Add 1 to the count of every cell x with (start + factor·x) mod prime < width, for each report.

    Args:
        factors: The factor a of each report's hash function, from 0 to prime − 1.
        starts: The value of cell 0 minus the lower end of the bucket, modulo the prime.
        widths: The number of values in the bucket, from 1 to prime.
        prime: The modulus.
        counts: One count for each cell; changed in place.
    """
    cells = len(counts)
    for report in range(len(factors)):
        factor, value, width = factors[report], starts[report], widths[report]
        cell = 0
        while cell < cells and value >= width:
            cell += 1
            value += factor
            if value >= prime:
                value -= prime
        # The first times at which the rotation moves a value up or down by less than the width. A move of more steps
        # than there are cells is never made.
        right = left = cells
        up = down = width
        moved = 0
        for step in range(1, cells - cell):
            moved += factor
            if moved >= prime:
                moved -= prime
            if right == cells and moved < width:
                right, up = step, moved
            if left == cells and prime - moved < width:
                left, down = step, prime - moved
            if right < cells and left < cells:
                break
        while cell < cells:
            counts[cell] += 1
            if value < width - up:
                value += up
                cell += right
            elif value >= down:
                value -= down
                cell += left
            else:
                value += up - down
                cell += right + left
