"""``heathaze rehearse``: simulate a survey by secure sums on a synthetic city, before any device is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from heathaze.cli import common
from heathaze.cli.common import Json, Quiet, check_picture, out, say_json, say_table, say_written, steps
from heathaze.errors import InvalidInput

if TYPE_CHECKING:
    from heathaze.distributed import Cohort, Survey
    from heathaze.domain.density import Density

FINEST = 1024
"""The largest number of cells a side of a rehearsal's map."""

MOST_PEOPLE = 10**7

CHOICES = (1, 10, 100)
"""The numbers of shards that a rehearsal compares with the chosen one, if they divide the number of people."""

SMALLEST_SHARD = 100
"""The smallest shard that is compared. In smaller shards most of the people may be colluders."""


def rehearse(
    epsilon: Annotated[float, Option("--epsilon", help="Privacy loss of all rounds together.")],
    people: Annotated[int, Option("--people", help="Number of people who are asked in each round.")],
    shards: Annotated[
        int | None, Option("--shards", help="Number of secure sums (shards) per round; planned if left out.")
    ] = None,
    dropout: Annotated[
        float,
        Option(
            "--dropout",
            help="Largest share of devices that may drop out; half of this share drops out in the simulation.",
        ),
    ] = 0.1,
    colluding: Annotated[
        float, Option("--colluding", help="Share of the people asked that may collude with the server.")
    ] = 0.05,
    lon: common.Lon = None,
    lat: common.Lat = None,
    x: common.X = None,
    y: common.Y = None,
    size: common.Size = None,
    shape: common.Shape = None,
    projection: common.Projection = "equirectangular",
    city: Annotated[
        int, Option("--city", help="Number that selects the synthetic city; cities of five kinds alternate.")
    ] = 0,
    picture: Annotated[
        Path | None, Option("--out", "-o", help="Also draw the city and the estimated map (.png).")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the picture if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a survey by secure sums on a synthetic city. No data is read and no device is asked.

    Example: heathaze rehearse --lon -74.10 -73.78 --lat 40.58 40.90 --people 10000 --epsilon 1 --out rehearsal.png
    """
    import numpy as np

    from heathaze.datasets.city import synthetic_city
    from heathaze.distributed import AdaptiveQuadtree, Cohort, Population, Survey, simulate
    from heathaze.distributed.simulate import best_level
    from heathaze.domain.density import Density
    from heathaze.privacy.randomness import Simulation

    grid = common.grid_from(lon, lat, x, y, size, shape, projection)
    if max(grid.shape) > FINEST:
        raise InvalidInput(
            f"A rehearsal has at most {FINEST} cells a side; found {grid.rows} × {grid.cols}: use --size."
        )
    if people > MOST_PEOPLE:
        raise InvalidInput(f"people is {people}; a rehearsal asks at most {MOST_PEOPLE}.")
    check_picture(picture, overwrite=overwrite)
    cohort = Cohort(people, shards, dropout, colluding)
    surveys = [Survey(AdaptiveQuadtree(grid, epsilon), choice) for choice in _choices(cohort)]
    with steps(1 + len(surveys), silent=quiet or json) as begin:
        begin("Making a synthetic city")
        truth = Density.from_mass(grid, synthetic_city(grid.shape, city))
        population = Population.from_raster(grid, truth.values, 2 * people, Simulation(city))
        maps = []
        for place, survey in enumerate(surveys):
            begin(f"Asking in {survey.cohort.shards} shards" if survey.cohort.shards > 1 else "Asking in one shard")
            surveys[place] = simulate(survey, population, randomness=Simulation(city + 1), dropout=dropout / 2)
            maps.append(surveys[place].estimate(draws=0).density)
        # The first of the surveys has the chosen number of shards.
        survey, found = surveys[0], maps[0]
        if picture is not None:
            _draw(survey, truth, found, picture)
    facts = _facts(survey, truth, found)
    known = best_level(population, truth.values, np.arange(people)).mse
    facts["choices"] = [_choice(*pair, truth, known) for pair in zip(surveys, maps, strict=True)]
    facts["choices"].sort(key=lambda row: row["shards"])
    if json:
        say_json(facts | ({} if picture is None else {"written": [str(picture)]}))
    elif not quiet:
        _print(facts, picture)


def _choices(chosen: Cohort) -> list[Cohort]:
    """The chosen cohort, followed by the same people in other numbers of shards."""
    from heathaze.distributed import Cohort
    from heathaze.secagg.parameters import MOST_CLIENTS

    found = [chosen]
    for shards in CHOICES:
        size = chosen.people // shards
        if shards == chosen.shards or chosen.people % shards or not SMALLEST_SHARD <= size <= MOST_CLIENTS:
            continue
        try:
            found.append(Cohort(chosen.people, shards, chosen.dropout, chosen.colluding))
        except InvalidInput:  # a shard of this size may have too many colluders
            continue
    return found


def _choice(survey: Survey, found: Density, truth: Density, known: float) -> dict[str, Any]:
    """What a number of shards costs: the noise of the last round, the error of the map, and the bytes of a device.

    ``known`` is the mean squared error of the best map of equal squares without noise.
    """
    from heathaze.metrics import mse

    parameters = [one.question.plan_parameters() for one in survey.rounds]
    return {
        "shards": survey.cohort.shards,
        "shard": survey.cohort.shard,
        "noise": survey.rounds[-1].deviation(),
        "mse": mse(truth, found),
        "error": mse(truth, found) / known,
        "sent": sum(one.bytes_sent for one in parameters),
        "received": sum(one.bytes_received for one in parameters),
    }


def _facts(survey: Survey, truth: Density, found: Density) -> dict[str, Any]:
    from heathaze.metrics import mse, similarity

    rounds = [
        {
            "round": one.question.number,
            "numbers": one.question.length,
            "bits": one.question.bits,
            "sent": parameters.bytes_sent,
            "received": parameters.bytes_received,
            "noise": one.deviation(),
            "epsilon": float(one.question.epsilon),
            "delivered": one.people,
        }
        for one in survey.rounds
        for parameters in (one.question.plan_parameters(),)
    ]
    sigma = max(survey.mechanism.grid.shape) / 64
    return {
        "people": survey.cohort.people,
        "shards": survey.cohort.shards,
        "rounds": rounds,
        "numbers": survey.numbers_sent,
        "guarantee": str(survey.guarantee),
        "mse": mse(truth, found),
        "sim": similarity(truth.smooth(sigma), found.smooth(sigma)),
    }


def _print(facts: dict[str, Any], picture: Path | None) -> None:
    columns = {
        "round": "{round}",
        "regions": "{numbers:,}",
        "ε": "{epsilon:.4g}",
        "noise (people)": "± {noise:.3g}",
        "bytes sent": "{sent:,}",
        "received": "{received:,}",
        "answered": "{delivered:,}",
    }
    say_table(columns, facts["rounds"])
    out.print(
        "\nThe same survey in other numbers of shards (* is this one). The error is the mean squared error of the map "
        "on this city, as a multiple of the best map of equal squares without noise; bytes are those of one device "
        "over all rounds."
    )
    columns = {
        "shards": "{shards:,}{mark}",
        "people each": "{shard:,}",
        "noise (people)": "± {noise:.3g}",
        "error": "{error:.2f}",
        "bytes sent": "{sent:,}",
        "received": "{received:,}",
    }
    marks = {facts["shards"]: " *"}
    say_table(columns, ({**row, "mark": marks.get(row["shards"], "")} for row in facts["choices"]))
    out.print()
    out.print(
        f"A person who is asked in every round sends {facts['numbers']:,} numbers, with keys and shares "
        f"{sum(row['sent'] for row in facts['rounds']) / 1000:,.1f} kB in all, and the map shares "
        f"{facts['sim']:.2f} of its mass with the truth (SIM of heat maps blurred by 1/64 of the side; 1 is equal).",
        style="bold",
    )
    out.print(facts["guarantee"])
    out.print(
        "This was a rehearsal on a synthetic city (--city N chooses another city). No device was asked and nothing was "
        "charged.",
        style="dim",
    )
    say_written(filter(None, [picture]))


def _draw(survey: Survey, truth: Density, found: Density, path: Path) -> None:
    from heathaze.maps.figure import draw

    panels = [
        ("synthetic city", truth),
        ("last round as it came", survey.rounds[-1].density().dense()),
        ("all rounds together", found),
    ]
    people = survey.cohort.people
    draw(
        panels,
        title=f"A rehearsal: {people:,} people, {len(survey.rounds)} rounds, {survey.numbers_sent:,} numbers each",
        caption=f"{survey.guarantee} Simulated on a synthetic city; no device was asked.",
        path=path,
    )
