"""Terminal output of all commands: results, errors, warnings and progress."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from heathaze.errors import WeakPrivacy

# Sentences are wrapped on a terminal, and stay on one line in files and pipes.
out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def complain(sentence: str) -> None:
    """Print an error of a command: one red sentence on standard error."""
    err.print(f"heathaze: {sentence}", style="red", markup=False)


@contextlib.contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Print each warning of Heathaze once, as a sentence on standard error; leave warnings of other packages alone."""
    printed: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, WeakPrivacy):
            usual(message, category, *rest, **more)
        elif str(message) not in printed:
            printed.add(str(message))
            err.print(f"heathaze: warning: {message}", style="yellow", markup=False)

    with warnings.catch_warnings():
        usual = warnings.showwarning
        warnings.simplefilter("always", WeakPrivacy)
        warnings.showwarning = show
        yield


def say_json(fields: dict[str, Any]) -> None:
    """Print the result of a command as one JSON object on standard output."""
    sys.stdout.write(json.dumps(fields, ensure_ascii=False, indent=2) + "\n")


@contextlib.contextmanager
def steps(total: int, *, silent: bool) -> Iterator[Callable[[str], None]]:
    """Show the progress of a command over a few named steps.

    On a terminal this is a progress bar, which disappears at the end. In a file or pipe, each step that begins after
    two seconds prints a line, so that logs of long runs show progress and short runs print nothing.

    Args:
        total: The number of steps.
        silent: Show nothing.

    Yields:
        A function to call with a step's name when the step begins.
    """
    if silent:
        yield lambda _name: None
        return
    if not err.is_terminal:
        begun = time.monotonic()

        def log(name: str) -> None:
            if time.monotonic() - begun > 2:
                err.print(f"{name} …", markup=False)

        yield log
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("", total=total)
        started = False

        def begin(name: str) -> None:
            nonlocal started
            progress.update(task, description=name, advance=1 if started else 0)
            started = True

        yield begin
