"""``heathaze summarize --example``: a made-up market to try the command on."""

from __future__ import annotations

from pathlib import Path

from heathaze.cli.console import out
from heathaze.errors import CannotWrite


def write_example(folder: Path, *, quiet: bool) -> None:
    import duckdb

    from heathaze.datasets.owners import market
    from heathaze.marketplace.study import Study

    if folder.exists():
        raise CannotWrite(f"{folder} exists already; name a new folder.")
    made = market()
    tables = {"town": made.target, "more_of_town": market(1, target=2000, each=1).target, **made.owners}
    owners = " ".join(f"{name}.parquet" for name in made.owners)
    command = (
        f"heathaze summarize --target town.parquet --owners {owners} --study study.toml --points 500 --epsilon 2 "
        "--delta 1e-6 --check more_of_town.parquet --out chosen.parquet --report report.json --picture purchase.png"
    )
    try:
        folder.mkdir(parents=True)
        (folder / "README.txt").write_text(
            "A made-up market: households of a town, and of five suppliers. In this folder:\n\n" + command + "\n",
            encoding="utf-8",
        )
        for name, table in tables.items():
            with duckdb.connect() as connection:
                connection.register("households", table)
                connection.sql("select * from households").write_parquet(str(folder / f"{name}.parquet"))
    except (OSError, duckdb.IOException):
        raise CannotWrite(f"Cannot write into {folder}; choose another place.") from None
    Study.of(made.columns, seed=7).write(folder / "study.toml")
    if not quiet:
        names = [f"{name}.parquet" for name in tables]
        out.print(
            f"wrote {', '.join(str(folder / name) for name in [*names, 'study.toml', 'README.txt'])}",
            style="bold",
            markup=False,
        )
        out.print(command, markup=False)
