"""Tables that a run writes into the README of its paper, between marks."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence


def writes_readme(arguments: list[str] | None) -> bool:
    """Is this a full run that records what it found?"""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write-expected", action="store_true")
    options, _ = parser.parse_known_args(arguments)
    return options.write_expected and not options.quick


def between(readme: str, name: str, rows: Iterable[Sequence[str]]) -> str:
    """A README with a table between the marks of this name; the first row is its head."""
    head, *body = rows
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, body)]
    marks = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    readme, found = marks.subn(lambda mark: mark[1] + "\n".join(lines) + "\n" + mark[2], readme)
    if found != 1:
        raise ValueError(f"README.md has {found} places for {name}; it must have one.")
    return readme


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
