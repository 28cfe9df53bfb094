"""``heathaze``: the list of commands, and the reporting of errors.

The file of a command is imported when the command runs. ``heathaze --help`` therefore imports no command and no numpy.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from importlib import import_module
from inspect import signature
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from heathaze.cli.common import complain, warnings_as_sentences
from heathaze.errors import HeathazeError

COMMANDS = {
    "plan": "Predict the quality of a map from synthetic cities. No data is read and nothing is charged.",
    "look": "Look at a file of visits and propose the command that publishes it. For your eyes only.",
    "publish": "Turn a file of visits into a private map.",
    "journeys": "Turn a file of journeys into made-up journeys that may be published.",
    "randomize": (
        "Turn positions into private reports on the device; `heathaze estimate` makes a map from many reports."
    ),
    "estimate": "Make a map from reports.",
    "trust": "Compare maps of synthetic cities in every model of trust. No data is read and nothing is charged.",
    "rehearse": "Simulate a survey by secure sums on a synthetic city. No data is read and no device is asked.",
    "show": "Print the guarantee of a release, how it was made, its centres and hotspots, and a sketch of the map.",
    "compare": "Measure how far a release is from the truth. The output is not private.",
    "compare-releases": (
        "Show two releases on one scale, and which changes are real. Only releases are read; nothing is charged."
    ),
    "gallery": "Make a static site of releases, with downloads and a catalogue. Only releases are read.",
    "sensors": "Protect readings of heat sensors, and locate heat sources from protected readings.",
    "market": "Buy rows that match a target from owners who do not trust each other.",
    "ledger": "Open a ledger, which is the privacy budget of a dataset, or show what was spent.",
    "mechanisms": (
        "List the mechanisms, or print the page of one: its promise, proof, cost and departures from the paper."
    ),
    "demo": "Make a synthetic city, publish it, and draw the map as pictures and pages.",
}
"""Each command with the first paragraph of its help, in the order of the list. A test compares it with the command's
own help."""

_FILE = {"market": "marketplace", "compare-releases": "compare_releases"}
"""Commands whose file has another name than the command."""


class Commands(TyperGroup):
    """The group of all commands. Lists and suggestions use placeholders; a command is imported when it runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update({name: TyperCommand(name, help=line) for name, line in COMMANDS.items()})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the arguments of the command line, because error sentences quote them."""
        ctx.meta["heathaze.words"] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. If an option needs a number and its value is not one, the error sentence quotes the value."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if sentence := _sentence(error, ctx.meta["heathaze.words"]):
                error.message = sentence  # type: ignore[attr-defined]
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the command line names, and return it with its arguments."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        return (name, stand_in, rest) if name is None else (name, load(name), rest)


def _sentence(error: Exception, words: list[str]) -> str | None:
    """Write a sentence about a value that is missing or is not a number. For every other error, return None."""
    message, option = str(getattr(error, "message", "")), getattr(error, "param", None)
    names = [getattr(error, "option_name", None)] if option is None else option.opts
    pairs = [(word.partition("="), words[place + 1 :]) for place, word in enumerate(words)]
    given = [([value] if equals else rest) for (name, equals, value), rest in pairs if name in names]
    if not given:
        return None
    if missing := re.search(r"requires (\d+) arguments", message):
        values, several = given[-1], int(missing[1])
    elif kind := re.search("valid (number|float|integer)", message):
        values, several = given[-1][: option.nargs], option.nargs  # type: ignore[union-attr]
        value = next((value for value in values if not _is_number(value, kind[1] == "integer")), None)
        if value is None:
            return None
        if several == 1 or not value.startswith("--"):
            sort = "a whole number" if kind[1] == "integer" else "a number"
            return f"{value!r} is not {sort}" + _point(value)
    else:
        return None
    there = [value for value, _ in zip(values, range(several), strict=False)]
    there = there[: next((place for place, value in enumerate(there) if value.startswith("--")), several)]
    pair = f"{names[0]} needs {several} values, with a blank between them, and {len(there)} was given"
    return pair + next((_point(value) for value in there if "," in value), ".")


def _is_number(text: str, whole: bool) -> bool:
    try:
        int(text) if whole else float(text)
    except ValueError:
        return False
    return True


def _point(value: str) -> str:
    """Return the end of a sentence about a value. If the value has a decimal comma, it says to write a point."""
    if re.fullmatch(r"[+-]?\d*,\d+", value):
        return f"; write a decimal point: {value.replace(',', '.')}."
    return "."


def load(name: str) -> Any:
    """Import the file of a command; build the command from its ``app`` or from the function named like the command."""
    module = import_module(f"heathaze.cli.{_FILE.get(name, name)}")
    found = getattr(module, "app", None)
    if found is None:
        function = getattr(module, name.replace("-", "_"))
        asks = any(given.default is given.empty for given in signature(function).parameters.values())
        found = typer.Typer(add_completion=False)
        found.command(no_args_is_help=asks)(function)
    command = get_command(found)
    command.name = name
    _group(command, getattr(module, "PANELS", {}))
    return command


def _group(command: Any, panels: dict[str, tuple[str, ...]]) -> None:
    """Show the options of a command in groups; options without a group come last."""
    place = {option: (k, panel) for k, (panel, option) in enumerate((p, o) for p, os in panels.items() for o in os)}
    for parameter in command.params:
        if parameter.name in place:
            parameter.rich_help_panel = place[parameter.name][1]
    command.params.sort(key=lambda parameter: place.get(parameter.name, (len(place), ""))[0])


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
    """Run the command line. A known error prints one sentence to standard error and exits with code 1."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot print ε must not stop a paid release
    try:
        with warnings_as_sentences():
            app()
    except HeathazeError as error:
        complain(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        complain("Stopped. A charge that was already made stays in the ledger; no half-written file is left.")
        sys.exit(130)
    except Exception as error:
        if os.environ.get("HEATHAZE_DEBUG"):
            raise
        # The message of an unexpected error may quote data, so only the error's class and line are shown.
        place = traceback.extract_tb(error.__traceback__)[-1]
        complain(
            f"Unexpected error: {type(error).__name__} in {os.path.basename(place.filename)}, line {place.lineno}. "
            "Its details may quote data and are not shown; set HEATHAZE_DEBUG=1 to see them."
        )
        sys.exit(70)
