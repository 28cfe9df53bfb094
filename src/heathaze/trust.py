"""The price of trust: the same people, the same ε and the same adjacency, in every model of trust.

In all models, neighbouring datasets differ in the position of one person, and the number of people is public. To
replace a person is to remove one and to add another. So mechanisms whose guarantee is for adding or removing a person,
or for replacing a person's vector by zeros, run at ε/2. The guarantees of the others are for replacement already.
"""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from heathaze import central, distributed, local, shuffle
from heathaze.checks import whole
from heathaze.datasets.city import draw_people, synthetic_city
from heathaze.domain.density import Density
from heathaze.domain.grid import Box, Grid
from heathaze.errors import InvalidInput
from heathaze.ingest.counts import Counts
from heathaze.metrics.emd import emd
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.loss import Number, parse_delta, parse_epsilon, warn_if_weak
from heathaze.privacy.randomness import Simulation
from heathaze.publishing import publish
from heathaze.release.release import Release
from heathaze.shuffle.study import Study
from heathaze.types import Floats

MODELS = ("curator", "decoys", "split and mix", "shuffled reports", "secure sum", "nobody")
"""All models of trust, from the most to the least trust."""

TRUSTED = {
    "curator": "a curator, who sees all positions",
    "decoys": "a shuffler that does not collude with the server",
    "split and mix": "a shuffler that does not collude with the server",
    "shuffled reports": "a shuffler; without it a weaker promise is left",
    "secure sum": "a server that follows the protocol, and few colluders",
    "nobody": "nobody",
}
"""Whom people have to trust in each model."""

BLOCKS = 8
"""Intervals are compared with the truth on squares: the map is divided into this many rows and columns of squares."""


@dataclass(frozen=True, eq=False)
class Row:
    """One model of trust.

    Attributes:
        model: Its name, from :data:`MODELS`.
        release: The map; with several cities, that of the first.
        truth: The map of the same people without privacy.
        emd: Earth mover's distance to the map of the same people without privacy; the longer side is 1.
        coverage: The share of 8 × 8 squares whose 90 % interval holds the true share, or None without intervals.
        width: The mean width of these intervals, as a share of all people, or None.
        sent: Bytes that one person sends, with encryption.
    """

    model: str
    release: Release
    truth: Density
    emd: float
    coverage: float | None
    width: float | None
    sent: int

    @property
    def trusted(self) -> str:
        """Whom people have to trust."""
        return TRUSTED[self.model]


def compare_trust(
    epsilon: Number,
    people: int,
    *,
    size: int = 64,
    delta: Number = Fraction(1, 10**6),
    cities: int = 1,
    models: tuple[str, ...] = MODELS,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Make maps of synthetic cities in every model of trust. No data is read and nothing is charged.

    The numbers of each model are means over the cities.

    Args:
        epsilon: ε, for replacing one person's position.
        people: The number of people, from 100 to 200,000; each has one place.
        size: The number of cells along a side, 8 to 256.
        delta: δ of the models with a shuffler; the others have none.
        cities: The number of synthetic cities, 1 to 100. With one city, the noise of each model is drawn once, and
            differences between two models may be chance.
        models: Which models to compare.
        progress: Called with the name of each model before it runs.

    Returns:
        One row for each model, in the order of ``models``.

    Raises:
        InvalidInput: A value is out of range.

    >>> [row.model for row in compare_trust(2, 1000, size=16, models=("curator", "decoys"))]
    ['curator', 'decoys']
    """
    number = whole(people, "people", "people", least=100, most=200_000)
    side = whole(size, "size", "cells along a side", least=8, most=256)
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=side)
    places = {city: _people(grid, number, city) for city in range(1, whole(cities, "cities", "cities", most=100) + 1)}
    found = []
    for model in models:
        progress(model)
        found.append(
            _mean([compare_on(grid, points, epsilon, delta, seed=city, models=(model,))[0]
                   for city, points in places.items()])
        )  # fmt: skip
    return found


def _people(grid: Grid, number: int, city: int) -> Floats:
    """The places of the people of a synthetic city: the middles of cells."""
    counts = draw_people(synthetic_city(grid.shape, city), number, 1, city)
    rows, cols = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), grid.cols)
    return np.column_stack([(cols + 0.5) / grid.cols, (rows + 0.5) / grid.rows])


def _mean(rows: list[Row]) -> Row:
    """The first row, with the mean numbers of all."""
    first, emd, sent = rows[0], float(np.mean([row.emd for row in rows])), round(np.mean([row.sent for row in rows]))
    coverage, width = (
        None if first.coverage is None else float(np.mean([getattr(row, name) for row in rows]))
        for name in ("coverage", "width")
    )
    return dataclasses.replace(first, emd=emd, coverage=coverage, width=width, sent=sent)


def compare_on(
    grid: Grid,
    points: npt.ArrayLike,
    epsilon: Number,
    delta: Number = Fraction(1, 10**6),
    *,
    seed: int = 0,
    models: tuple[str, ...] = MODELS,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Make a map of given people in every model of trust, with simulated noise. The result is not private.

    Args:
        grid: The public grid.
        points: One row (x, y) for each person, inside the grid.
        epsilon: As in :func:`compare_trust`.
        delta: As in :func:`compare_trust`.
        seed: The seed of the noise.
        models: As in :func:`compare_trust`.
        progress: As in :func:`compare_trust`.

    Raises:
        InvalidInput: A value is out of range, or there is no such model.
    """
    loss, allowed = parse_epsilon(epsilon), parse_delta(delta, zero=False)
    warn_if_weak(loss)
    places = np.asarray(points, dtype=np.float64)
    row, col, inside = grid.cell_of(places[:, 0], places[:, 1])
    if not inside.all():
        raise InvalidInput("A position is outside the map; leave such people out first.")
    truth = np.bincount(row * grid.cols + col, minlength=grid.cells).reshape(grid.shape)
    found = []
    for model in models:
        if model not in MODELS:
            raise InvalidInput(f"There is no model of trust {model!r}; choose from {', '.join(MODELS)}.")
        progress(model)
        release, sent = _MAKE[model](grid, places, loss, allowed, Simulation(1000 * seed + MODELS.index(model)))
        found.append(_row(model, release, truth, sent))
    return found


def _row(model: str, release: Release, truth: npt.NDArray[np.int64], sent: int) -> Row:
    distance = float(emd(truth, release.density.dense().values, tolerance=1e-4))
    exact = Density.from_mass(release.grid, truth)
    if not release.knows_uncertainty:
        return Row(model, release, exact, distance, None, None, sent)
    grid, shares = release.grid, truth / truth.sum()
    cuts = [np.linspace(0, count, BLOCKS + 1).astype(int) for count in grid.shape]
    held, widths = [], []
    for top, bottom in zip(cuts[0], cuts[0][1:], strict=False):
        for left, right in zip(cuts[1], cuts[1][1:], strict=False):
            share = release.mass_in(_box(grid, top, bottom, left, right))
            assert share.low is not None
            assert share.high is not None
            held.append(share.low <= shares[top:bottom, left:right].sum() <= share.high)
            widths.append(share.high - share.low)
    return Row(model, release, exact, distance, float(np.mean(held)), float(np.mean(widths)), sent)


def _box(grid: Grid, top: int, bottom: int, left: int, right: int) -> Box:
    """The box of some rows and columns."""
    (x0, x1), (y0, y1) = grid.box.x, grid.box.y
    across, down = (x1 - x0) / grid.cols, (y1 - y0) / grid.rows
    first, last = grid.cell_of(np.array([x0 + across / 2] * 2), np.array([y0 + down / 2, y1 - down / 2]))[0]
    if first > last:  # rows are counted from the north
        return Box((x0 + left * across, x0 + right * across), (y1 - bottom * down, y1 - top * down))
    return Box((x0 + left * across, x0 + right * across), (y0 + top * down, y0 + bottom * down))


# ── the models ──────────────────────────────────────────────────────────────────────────────────────────────────────

Made = tuple[Release, int]


def _curator(grid: Grid, points: Floats, epsilon: Fraction, delta: Fraction, luck: Simulation) -> Made:  # noqa: ARG001
    row, col, _ = grid.cell_of(points[:, 0], points[:, 1])
    cells, counts = np.unique(row * grid.cols + col, return_counts=True)
    secret = Counts.from_cells(
        grid, cells // grid.cols, cells % grid.cols, counts, bound=1, one=1, unit=Unit.PERSON
    )  # fmt: skip
    return publish(central.default(grid, epsilon=epsilon / 2), secret, randomness=luck), 16  # two coordinates


def _decoys(grid: Grid, points: Floats, epsilon: Fraction, delta: Fraction, luck: Simulation) -> Made:
    mechanism = shuffle.Decoys(grid, epsilon, len(points), delta)
    found = shuffle.estimate(shuffle.simulate(mechanism, points, randomness=luck))
    return found, round(mechanism.messages * Study(mechanism, bytes(32)).sealed_bytes)


def _split(grid: Grid, points: Floats, epsilon: Fraction, delta: Fraction, luck: Simulation) -> Made:
    protocol = shuffle.SplitAndMix(grid, epsilon, len(points), delta, parts=1)
    found = shuffle.estimate_rounds(shuffle.simulate_rounds(protocol, points, randomness=luck))
    return found, protocol.bytes_per_person


def _reports(grid: Grid, points: Floats, epsilon: Fraction, delta: Fraction, luck: Simulation) -> Made:
    mechanism = shuffle.ShuffledReports.calibrated(grid, epsilon, len(points), delta)
    found = shuffle.estimate(shuffle.simulate(mechanism, points, randomness=luck))
    return found, Study(mechanism, bytes(32)).sealed_bytes


def _secure_sum(grid: Grid, points: Floats, epsilon: Fraction, delta: Fraction, luck: Simulation) -> Made:  # noqa: ARG001
    population = distributed.Population.from_table(grid, np.arange(len(points)), points[:, 0], points[:, 1])
    shards = next(k for k in range(-(-len(points) // 100_000), len(points)) if len(points) % k == 0)
    survey = distributed.Survey(
        distributed.AdaptiveQuadtree(grid, epsilon=epsilon / 2), distributed.Cohort(len(points), shards)
    )
    done = distributed.simulate(survey, population, randomness=luck, fresh=False)
    sent = 0
    for asked in (found.question for found in done.rounds):
        neighbours = asked.plan_parameters().neighbours
        sent += 670 + 135 * neighbours + -(-asked.length * asked.bits // 8)  # secagg.md
    return done.estimate(), sent


def _nobody(grid: Grid, points: Floats, epsilon: Fraction, delta: Fraction, luck: Simulation) -> Made:  # noqa: ARG001
    mechanism = local.default(grid, epsilon, people=len(points))
    reports = local.randomize(mechanism, points, randomness=luck)
    return local.estimate(reports), -(-mechanism.numbers * (mechanism.limit - 1).bit_length() // 8)


_MAKE = dict(zip(MODELS, (_curator, _decoys, _split, _reports, _secure_sum, _nobody), strict=True))


# ── the picture ─────────────────────────────────────────────────────────────────────────────────────────────────────


def table_of(rows: list[Row]) -> list[tuple[str, str, str, str, str, str]]:
    """The rows as texts: model, EMD, coverage, width, bytes, and whom to trust."""
    return [
        (
            row.model,
            f"{row.emd:.4f}",
            "none" if row.coverage is None else f"{row.coverage:.0%}",
            "" if row.width is None else f"{100 * row.width:.2f} %",
            f"{row.sent:,}",
            row.trusted,
        )
        for row in rows
    ]


HEADINGS = ("trust model", "EMD", "90 % intervals\nthat hold", "mean width\nof intervals", "bytes sent\nby a person", "whom people have to trust")  # fmt: skip # noqa: E501

ADJACENCY = (
    "Numbers are means over the cities, and the maps show the first one. All maps protect one person's position "
    "against replacement by any other; the curator and the secure sum run at half of ε for adding or removing a "
    "person. EMD: mean distance that mass must move to turn one map into the other, as a share of the map's side (0 is "
    "equal)."
)
"""What the numbers of the table mean."""


def draw_trust(rows: list[Row], path: Path | str, *, title: str) -> None:
    """Draw the truth and the maps of all models on one colour scale, with a table of what each costs.

    The table is also in the picture's file, as a description.

    Args:
        rows: The rows of :func:`compare_trust`.
        path: A PNG file.
        title: Text above the maps.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    maps = [("truth, not private", rows[0].truth)]
    maps += [(row.model, row.release.density.dense()) for row in rows]
    most = max(float(np.quantile(one.values, 0.998)) for _, one in maps)
    across, side, wide = 4, 2.15, 9.6
    down = -(-(len(maps) + 1) // across)  # the colour bar needs a place too
    high = 0.45 + (side + 0.4) * down + 2.75
    figure = Figure(figsize=(wide, high), dpi=110)
    FigureCanvasAgg(figure)

    def place(k: int) -> tuple[float, float]:
        """Left and bottom of the k-th map, in inches."""
        return 0.2 + (k % across) * (side + 0.2), high - 0.45 - (side + 0.4) * (k // across) - side - 0.3

    figure.text(0.2 / wide, 1 - 0.25 / high, title, fontsize=12, weight="bold", va="center")
    for k, (name, one) in enumerate(maps):
        left, bottom = place(k)
        axes = figure.add_axes((left / wide, bottom / high, side / wide, side / high))
        origin = "lower" if _box(one.grid, 0, 1, 0, 1).y[0] == one.grid.box.y[0] else "upper"
        image = axes.imshow(np.sqrt(one.values / most).clip(0, 1), cmap="cividis", vmin=0, vmax=1, origin=origin)  # type: ignore[arg-type]
        axes.set_title(name, fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
    left, bottom = place(across * down - 1)
    bar = figure.colorbar(image, cax=figure.add_axes((left / wide, bottom / high, 0.15 / wide, side / high)))
    bar.set_ticks([0, 0.5, 1], labels=["0", f"{25 * most:.2f} %", f"{100 * most:.2f} %"])
    bar.ax.tick_params(labelsize=8)
    bar.ax.set_title("share of people in a cell", fontsize=9, loc="left")
    axes = figure.add_axes((0.2 / wide, 0.55 / high, 1 - 0.4 / wide, 2.2 / high))
    axes.axis("off")
    widths = [0.13, 0.08, 0.13, 0.12, 0.12, 0.42]
    table = axes.table(
        table_of(rows), colLabels=HEADINGS, colWidths=widths, loc="center", cellLoc="left", colLoc="left", edges="B"
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    for (at, _), cell in table.get_celld().items():
        cell.set_height(0.19 if at == 0 else 0.8 / len(rows))
    figure.text(0.2 / wide, 0.1 / high, textwrap.fill(ADJACENCY, 155), fontsize=8, va="bottom")
    figure.savefig(path, metadata={"Title": title, "Description": json.dumps([list(row) for row in table_of(rows)])})
