"""``heathaze``: the commands, and how an error reads."""

from __future__ import annotations

import os
import sys
import traceback

import typer

from heathaze.cli import (
    compare,
    demo,
    estimate,
    ledger,
    mechanisms,
    plan,
    publish,
    randomize,
    rehearse,
    sensors,
    show,
)
from heathaze.cli import (
    marketplace as summarize,
)
from heathaze.cli.console import complain, warnings_as_sentences
from heathaze.errors import HeathazeError

app = typer.Typer(
    help="Sensitive locations become maps that can be published, with a differential-privacy guarantee.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback with local variables would print people's data
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(no_args_is_help=True)(plan.plan)
app.command(no_args_is_help=True)(publish.publish)
app.command(no_args_is_help=True)(randomize.randomize)
app.command(no_args_is_help=True)(estimate.estimate)
app.command(no_args_is_help=True)(rehearse.rehearse)
app.command(no_args_is_help=True)(show.show)
app.command(no_args_is_help=True)(compare.compare)
app.add_typer(sensors.app, name="sensors")
app.command(no_args_is_help=True, cls=summarize.SeveralValues)(summarize.summarize)
app.add_typer(ledger.app, name="ledger")
app.command()(mechanisms.mechanisms)
app.command()(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        from heathaze.version import __version__

        typer.echo(f"heathaze {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Sensitive locations become maps that can be published, with a differential-privacy guarantee."""


def run() -> None:
    """Run a command; a known error is one sentence on standard error and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an ε that a terminal cannot show must not fail a paid release
    try:
        with warnings_as_sentences():
            app()
    except HeathazeError as error:
        complain(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        complain("Stopped. A charge that was already made stays made; nothing half-written is left.")
        sys.exit(130)
    except Exception as error:
        if os.environ.get("HEATHAZE_DEBUG"):
            raise
        # The message of an unforeseen error may quote data, so only its kind and place are shown.
        place = traceback.extract_tb(error.__traceback__)[-1]
        complain(
            f"Something unforeseen happened ({type(error).__name__} in {os.path.basename(place.filename)}, line "
            f"{place.lineno}). Its details may quote data and are not shown; set HEATHAZE_DEBUG=1 to see them."
        )
        sys.exit(70)
