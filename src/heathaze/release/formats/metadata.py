"""The fields of every release file besides the numbers of its map, and the checks that a loaded file must pass."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heathaze.domain.density import MAX_DENSE_CELLS, Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import exists
from heathaze.errors import PromiseBroken, UnreadableData
from heathaze.inference.estimate import Estimate
from heathaze.privacy import events
from heathaze.privacy.accountant import compose
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import decimal
from heathaze.privacy.provenance import Provenance
from heathaze.release.formats import _posterior
from heathaze.types import Floats, Integers

FILE_VERSION = 2
"""The version of release files. It increases if a field changes its name or meaning. Heathaze 0.2 writes version 2."""

MAX_SQUARES = 2**26
"""A file with more squares than this is refused before the squares are read."""

KEYS = {"dense": ("row", "col"), "tree": ("level", "code")}
"""The names of the two numbers that identify a cell or a square."""

_RATIONAL = re.compile(r"[0-9]{1,1000}(/[0-9]{1,1000})?")


class Contents(NamedTuple):
    """The parts of a release in a file: the map with its total, the guarantee, and the provenance."""

    estimate: Estimate
    guarantee: Guarantee
    provenance: Provenance


def most_squares(grid: Grid) -> int:
    """Compute the most squares that a file may have for a grid: as many as cells, since squares do not overlap."""
    return min(MAX_SQUARES, grid.cells)


def to_dict(contents: Contents) -> dict[str, Any]:
    """Make the metadata of a release (everything except the numbers of the map) as plain fields."""
    estimate, guarantee, provenance = contents
    return {
        "heathaze": FILE_VERSION,
        "grid": estimate.grid.to_dict(),
        "total": estimate.total,
        "guarantee": guarantee.to_dict(),
        "provenance": provenance.to_dict(),
    }


def to_json(contents: Contents, *, with_density: bool = False) -> str:
    """Write the metadata of a release as JSON in ASCII, with the noisy counts or drawn maps if there are any.

    Args:
        contents: The release.
        with_density: Whether to write the density as well; needed if the polygons of the file are certain squares.
    """
    estimate = contents.estimate
    fields = {**to_dict(contents), "form": "tree" if isinstance(estimate.density, TreeDensity) else "dense"}
    if (noisy := _posterior.noisy_to_fields(estimate.noisy, estimate.grid)) is not None:
        fields["noisy"] = noisy
    if (drawn := _posterior.drawn_to_fields(estimate.drawn, estimate.grid)) is not None:
        fields["drawn"] = drawn
    if with_density and not (noisy is not None and same_density(estimate.posterior.density, estimate.density)):
        fields["density"] = _posterior.density_to_fields(estimate.density)
    return json.dumps(fields, allow_nan=False, default=_plain)


def from_json(text: str | bytes) -> dict[str, Any]:
    """Read the plain fields of a release from JSON; a text that is not a release or has another version is refused."""
    return check(json.loads(text))


def check(fields: object) -> dict[str, Any]:
    """Check that fields are the metadata of a release that this version of Heathaze can read, and return them.

    Raises:
        UnreadableData: The fields are not metadata of a release, or have another file version.
    """
    if not isinstance(fields, dict) or type(fields.get("heathaze")) is not int:
        raise UnreadableData("The file is not a release of Heathaze; save one with release.save(…).")
    if fields["heathaze"] > FILE_VERSION:
        raise UnreadableData(
            f"The file was written by a newer Heathaze (file version {fields['heathaze']}, this one reads version "
            f"{FILE_VERSION}); update with: pip install --upgrade heathaze."
        )
    if 1 <= fields["heathaze"] < FILE_VERSION:
        raise UnreadableData(
            f"The file was written by an older Heathaze (file version {fields['heathaze']}, this one reads version "
            f"{FILE_VERSION}); load it with heathaze 0.1, or publish the map again."
        )
    if fields["heathaze"] < 1 or fields.get("form") not in ("dense", "tree") or _has_control_characters(fields):
        raise _unsound()
    return fields


def _has_control_characters(fields: object) -> bool:
    """Check whether a text in a file has characters that would control the terminal on which the text is printed."""
    if isinstance(fields, dict):
        return any(_has_control_characters(part) for pair in fields.items() for part in pair)
    if isinstance(fields, list):
        return any(map(_has_control_characters, fields))
    return isinstance(fields, str) and not fields.isprintable()


def grid_of(fields: Mapping[str, Any]) -> Grid:
    """Read the grid from the fields of a release file; a dense map may have at most 2^24 cells."""
    found = fields["grid"]
    if type(found["rows"]) is not int or type(found["cols"]) is not int:
        raise _unsound()
    grid = Grid.from_dict(found)
    if fields["form"] == "dense" and grid.cells > MAX_DENSE_CELLS:
        raise _unsound()
    return grid


def to_contents(fields: Mapping[str, Any], density: Density | TreeDensity) -> Contents:
    """Make the parts of a release from the fields of a file and its density, and check that they fit together.

    Raises:
        UnreadableData: The fields do not fit together.
        PromiseBroken: The guarantee does not follow from the event.
    """
    total = fields["total"]
    if type(total) not in (int, float) or not math.isfinite(total):
        raise _unsound()
    promised = fields["guarantee"]
    # Without this check, a short text such as 1e999999999 would fill the memory.
    if not all(
        _RATIONAL.fullmatch(text)
        for text in (promised["epsilon"], promised["delta"], promised.get("failure_probability", "0"))
    ):
        raise _unsound()
    guarantee = Guarantee.from_dict(promised)
    str(guarantee)  # Fails if epsilon is too large for a float and could not be printed.
    provenance = Provenance.from_dict(fields["provenance"])
    if provenance.simulated:
        raise PromiseBroken(
            "The map was made with simulated randomness, whose noise anyone can repeat; do not rely on it."
        )
    _check_sentence(guarantee, promised.get("sentence"))
    _check_promise(guarantee, events.event_from_dict(provenance.event))
    noisy = _posterior.noisy_from_fields(density.grid, fields["noisy"]) if "noisy" in fields else None
    drawn = _posterior.drawn_from_fields(density.grid, fields["drawn"]) if "drawn" in fields else None
    return Contents(Estimate(density, float(total), noisy, drawn), guarantee, provenance)


def to_contents_of_squares(fields: Mapping[str, Any]) -> Contents | None:
    """Make the parts of a release from a file whose polygons are certain squares; None if they are its cells.

    Raises:
        UnreadableData: The fields do not fit together.
        PromiseBroken: The guarantee does not follow from the event.
    """
    grid, form = grid_of(fields), fields["form"]
    if "density" in fields:
        parts = _posterior.density_from_fields(form, grid, fields["density"], most_squares(grid))
        return to_contents(fields, density_of(form, grid, *parts))
    if "noisy" not in fields:
        return None
    # The map is the mean of the posterior. It is inferred once, and kept with the estimate.
    inferred = Estimate.infer(_posterior.noisy_from_fields(grid, fields["noisy"]))
    contents = to_contents(fields, inferred.density)
    if not math.isclose(inferred.total, contents.estimate.total, rel_tol=1e-6, abs_tol=1e-6):
        raise _unsound()
    vars(contents.estimate)["posterior"] = inferred.posterior
    return contents


def same_density(one: Density | TreeDensity, other: Density | TreeDensity) -> bool:
    """Check whether two densities have the same form and the same numbers."""
    names = ("values",) if isinstance(one, Density) else ("levels", "codes", "mass")
    return type(one) is type(other) and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def density_of(
    form: str, grid: Grid, first: npt.ArrayLike, second: npt.ArrayLike, shares: npt.ArrayLike
) -> Density | TreeDensity:
    """Make a density from the cells or squares of a release file that hold mass.

    Args:
        form: ``"dense"`` or ``"tree"``.
        grid: The grid of the file.
        first: Row of each cell, or level of each square.
        second: Column of each cell, or Morton code of each square.
        shares: Share of each cell or square.

    Raises:
        UnreadableData: A cell occurs twice, two squares overlap, or a cell or square is not on the grid.
    """
    one, other, share = _whole_numbers(first), _whole_numbers(second), np.asarray(shares, dtype=np.float64)
    return (_dense if form == "dense" else _tree)(grid, one, other, share)


def _dense(grid: Grid, row: Integers, col: Integers, share: Floats) -> Density:
    if (
        not row.shape == col.shape == share.shape
        or ((row < 0) | (row >= grid.rows) | (col < 0) | (col >= grid.cols)).any()
    ):
        raise _unsound()
    flat = row * grid.cols + col
    if len(np.unique(flat)) != len(flat):
        raise _unsound()
    values = np.zeros(grid.cells)
    values[flat] = share
    return Density(grid, values.reshape(grid.shape))


def _tree(grid: Grid, levels: Integers, codes: Integers, share: Floats) -> TreeDensity:
    density = TreeDensity(grid, levels, codes, share)
    if not exists(grid, density.levels, density.codes).all():
        raise _unsound()
    # The cells of a square are one contiguous range of codes at the deepest level.
    shift = 2 * (grid.depth - density.levels)
    start, end = density.codes << shift, (density.codes + 1) << shift
    order = np.argsort(start)
    if (start[order][1:] < end[order][:-1]).any():
        raise _unsound()
    return density


def _whole_numbers(values: npt.ArrayLike) -> Integers:
    """Convert numbers of a release file to integers; numbers that are not integers are refused, not rounded.

    Raises:
        UnreadableData: A number is not an integer.
    """
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise _unsound()
    return array.astype(np.int64)


def _unsound() -> UnreadableData:
    return UnreadableData(
        "The file is damaged or was edited: its parts do not fit together; get it again or save it anew."
    )


def _plain(value: object) -> object:
    """Convert a value for JSON: a numpy number to a Python number, anything else (a fraction) to text."""
    return value.item() if isinstance(value, np.generic) else str(value)


# ── the guarantee must follow from the event ────────────────────────────────────────────────────────────────────────

# Anyone may write a release file, so every file is checked when it is loaded. The privacy loss is computed again from
# the event, with the accountant that also computes it for a new release. A file may state a larger loss, because
# mechanisms round their noise up, but never a smaller one.

_TERMS: dict[Trust, tuple[tuple[Unit, ...], tuple[Adjacency, ...]]] = {
    Trust.CENTRAL: ((Unit.PERSON, Unit.PERSON_DAY, Unit.VISIT, Unit.TRIP), (Adjacency.ADD_REMOVE,)),
    Trust.SECURE_SUM: ((Unit.PERSON,), (Adjacency.ZERO_OUT,)),
    Trust.SHUFFLER: ((Unit.PERSON,), (Adjacency.REPLACE,)),
    Trust.LOCAL: ((Unit.PERSON, Unit.VISIT), (Adjacency.ANY_TWO, Adjacency.PER_METRE, Adjacency.PER_LENGTH)),
}
"""The units and adjacencies that the guarantee of a map may have, for each kind of trust."""


def _check_promise(guarantee: Guarantee, event: events.Event) -> None:
    """Refuse a guarantee that does not follow from its event.

    Args:
        guarantee: The stated guarantee.
        event: The description of what was done to the data.

    Raises:
        PromiseBroken: The guarantee states a smaller loss than the event costs, or a trust, unit or adjacency that the
            event does not allow.
    """
    _check_terms(guarantee, events.flatten(event))
    if events.needs_delta(event) and guarantee.loss.delta == 0:
        raise PromiseBroken("The guarantee states δ = 0, and its event has noise that costs a δ; do not rely on it.")
    cost = compose([event], guarantee.loss.delta)
    if guarantee.loss.epsilon < cost.epsilon:
        raise PromiseBroken(
            f"The guarantee states {guarantee.loss}, and its event costs ε = {decimal(cost.epsilon)}; "
            "do not rely on it."
        )


def _check_sentence(guarantee: Guarantee, sentence: object) -> None:
    """Refuse a guarantee whose fields name another unit or adjacency than the sentence in the same file.

    The event does not say whether a unit is a person, a day or a visit. So an edited unit can be detected only if the
    sentence still names the original unit.

    Args:
        guarantee: The guarantee, read from the fields of the file.
        sentence: The sentence of the file; a file may hold any value in this place.

    Raises:
        PromiseBroken: The fields and the sentence differ.
    """
    named = re.search(r"unit: ([a-z-]+); adjacency: ([a-z-]+)", sentence) if isinstance(sentence, str) else None
    if named is None:
        raise PromiseBroken("Its guarantee has no sentence that names unit and adjacency; do not rely on it.")
    stated = (guarantee.unit.value, guarantee.adjacency.value)
    if named.groups() != stated:
        raise PromiseBroken(
            f"It states unit {stated[0]} and adjacency {stated[1]}, and its sentence says {named[1]} and {named[2]}; "
            "do not rely on it."
        )


def _check_terms(guarantee: Guarantee, parts: list[events.Elementary]) -> None:
    # Noise shares belong to split and mix if there are mixed shares too, and to a secure sum otherwise.
    shares = any(isinstance(part, events.NoiseShares) for part in parts)
    split = any(isinstance(part, events.MixedShares) for part in parts)
    trusted = {Trust.SHUFFLER if split and isinstance(part, events.NoiseShares) else _trust(part) for part in parts}
    if split and not shares:
        raise PromiseBroken("The event mixes shares and names no noise in them; do not rely on the guarantee.")
    if len(trusted) != 1:
        raise PromiseBroken(
            "The event is empty or mixes noise of different trust, which no map does; do not rely on the guarantee."
        )
    (trust,) = trusted
    mixed = [part for part in parts if isinstance(part, events.Shuffled)]
    for part in mixed:
        if guarantee.people < part.people:
            raise PromiseBroken(
                f"The guarantee needs {guarantee.people} people, and its event {part.people}; do not rely on it."
            )
        kept = part.alone if isinstance(part, events.LocalReports) else math.inf
        if guarantee.alone is not None and guarantee.alone < kept * (1 - 1e-9):
            raise PromiseBroken(
                "The guarantee says that one person's messages are private without the shuffler, and from its event "
                "follows less; do not rely on it."
            )
    units, adjacencies = _TERMS[trust]
    if trust is Trust.LOCAL:
        lengths = {part.per for part in parts if isinstance(part, events.RandomizedReport)}
        adjacencies = tuple(adjacency for adjacency in adjacencies if lengths == {adjacency.length})
    for name, stated, possible in (
        ("trust", guarantee.trust, (trust,)),
        ("unit", guarantee.unit, units),
        ("adjacency", guarantee.adjacency, adjacencies),
    ):
        if stated not in possible:
            expected = " or ".join(one.value for one in possible) or "none"
            raise PromiseBroken(
                f"The guarantee states {name} {stated.value}, and from its event follows {expected}; do not rely on it."
            )


def _trust(part: events.Elementary) -> Trust:
    """Find the trust that a release needs from the kind of its event."""
    if isinstance(part, events.RandomizedReport):
        return Trust.LOCAL
    if isinstance(part, events.Shuffled):
        return Trust.SHUFFLER
    return Trust.SECURE_SUM if isinstance(part, events.NoiseShares) else Trust.CENTRAL
