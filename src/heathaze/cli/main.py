"""``heathaze``: the list of commands, and how errors are reported.

A command's file is imported when the command is used. ``heathaze --help`` therefore loads none of them, nor numpy.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from inspect import signature
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from heathaze.cli.console import complain, warnings_as_sentences
from heathaze.errors import HeathazeError

COMMANDS = {
    "plan": "Say what map to expect, from synthetic cities alone: no data is read and nothing is charged.",
    "publish": "Turn a file of visits into a private map.",
    "randomize": (
        "Turn positions into private reports, on the device that holds them; `heathaze estimate` makes a map of many."
    ),
    "estimate": "Make a map from reports.",
    "rehearse": "Simulate a survey by secure sums on a made-up city. No data is read and no device is asked.",
    "show": "Print the guarantee of a release, how it was made, its centres and hotspots, and a sketch of the map.",
    "compare": "Measure how far a release is from the truth. The output is not private.",
    "sensors": "Heat sources behind sensors: protect readings, and locate sources in protected ones.",
    "market": "Buy rows of owners who do not trust each other, so that the rows match a target.",
    "ledger": "The privacy budget of a dataset: open a ledger, show what was spent.",
    "mechanisms": (
        "List the mechanisms, or print the page of one: its promise, proof, cost and departures from the paper."
    ),
    "demo": "Make a synthetic city, publish it, and draw truth and release side by side.",
}
"""Each command with the first paragraph of its help, in the order of the list. A test compares it with the command."""

_FILE = {"market": "marketplace"}
"""Commands whose file has another name."""


class Commands(TyperGroup):
    """The commands by name. Lists and suggestions use stand-ins; a command's file is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update({name: TyperCommand(name, help=line) for name, line in COMMANDS.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is to run, with the arguments that are left for it."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        return (name, stand_in, rest) if name is None else (name, load(name), rest)


def load(name: str) -> Any:
    """Import the file of a command, and build the command from its ``app`` or from the function of the same name."""
    module = import_module(f"heathaze.cli.{_FILE.get(name, name)}")
    found = getattr(module, "app", None)
    if found is None:
        function = getattr(module, name)
        asks = any(given.default is given.empty for given in signature(function).parameters.values())
        found = typer.Typer(add_completion=False)
        found.command(no_args_is_help=asks)(function)
    command = get_command(found)
    command.name = name
    return command


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback with local variables would print people's data
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
            f"Unexpected error: {type(error).__name__} in {os.path.basename(place.filename)}, line {place.lineno}. "
            "Its details may quote data and are not shown; set HEATHAZE_DEBUG=1 to see them."
        )
        sys.exit(70)
