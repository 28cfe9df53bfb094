"""Write the tables of a run into the README of its paper, between marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from harness.claims import Claim


def between(readme: str, name: str, rows: Iterable[Sequence[str]]) -> str:
    """Replace the table between the marks of this name in a README; the first row is the table's head."""
    head, *body = rows
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, body)]
    marks = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    readme, found = marks.subn(lambda mark: mark[1] + "\n".join(lines) + "\n" + mark[2], readme)
    if found != 1:
        raise ValueError(f"README.md has {found} pairs of marks for {name}; it must have one.")
    return readme


def claim_rows(claims: Sequence[Claim], start: str) -> Iterator[Sequence[str]]:
    """A table of the claims whose texts start with a prefix; the table leaves the prefix out."""
    yield "claim", "theirs", "ours", "holds"
    for claim in claims:
        text = re.sub(rf"^{re.escape(start)}[:,] ", "", claim.text)
        yield text, claim.paper, claim.ours, claim.verdict.removesuffix(", see README")


def with_claims(
    readme: str,
    claims: Sequence[Claim],
    starts: Iterable[str],
    rows: Callable[[Sequence[Claim], str], Iterable[Sequence[str]]] = claim_rows,
) -> str:
    """Replace the tables of claims in a README, one table for each prefix."""
    for start in starts:
        chosen = [claim for claim in claims if claim.text.startswith(start)]
        readme = between(readme, f"claims, {start}", rows(chosen, start))
    return readme


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
