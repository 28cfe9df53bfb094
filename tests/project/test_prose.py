"""Prose stands one sentence to a line in Markdown, so that diffs show sentences, and cites errata that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "papers/**/*.md", "benchmarks/*.md", "src/**/*.md")
    for path in ROOT.glob(pattern)
)

TWO_SENTENCES = re.compile(r"[a-z)`%][.!?] (?:[A-Z][a-z]*|CODE),? (?=[a-z(])")
LEAD = re.compile(r"^\s*(?:[-*+]|\d+\.)?\s*\*{1,2}[^*]+\*{1,2}[.:]?\s*")
SHORTENED = ("et al. ", "e.g. ", "i.e. ", "vs. ")


def lines_with_two_sentences(text: str) -> list[str]:
    """Lines of prose that hold more than one sentence; code, tables, headings and brackets do not count."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for line in prose.splitlines():
        plain = re.sub(r"(?<=[.!?] )`[^`]*`", "CODE", LEAD.sub("", line))
        plain = re.sub(r"\([^()]*\)|\[[^\]]*\]|`[^`]*`|\"[^\"]*\"", "x", plain)
        for short in SHORTENED:
            plain = plain.replace(short, "x ")
        if not line.lstrip().startswith(("|", "#", "!", "<")) and TWO_SENTENCES.search(plain):
            found.append(line)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_one_sentence_to_a_line(page: str) -> None:
    assert lines_with_two_sentences((ROOT / page).read_text(encoding="utf-8")) == []


def test_the_rule_finds_two_sentences() -> None:
    assert lines_with_two_sentences("It is fast. This is why.")
    assert lines_with_two_sentences("It mixes messages. `Decoys` (squares) and `Rounds` do it.")
    assert not lines_with_two_sentences(
        "**Why.** It is fast.\nThis is why, by Du et al. The end.\n```\nA b. Cd ef.\n```"
    )


def test_every_cited_erratum_is_listed() -> None:
    """Code, pages and tests cite errata by number; a reader must find each in docs/errata.md."""
    text = (ROOT / "docs/errata.md").read_text("utf-8")
    cells = ", ".join(re.findall(r"^\| (E\d[^|]*?) \|", text, re.MULTILINE)).split(", ")
    listed = {cell.split()[0] for cell in cells} | set(cells)
    parted = {cell.split()[0] for cell in cells if " " in cell}
    cited: dict[str, str] = {}
    for folder in ("src", "papers", "docs", "tests", "mutants", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".toml"):
                for number, part in re.findall(r"\b(E\d-\d+)( [a-z]\b)?", path.read_text("utf-8")):
                    cited[number + part if number in parted else number] = path.relative_to(ROOT).as_posix()
    assert len(cited) > 40
    assert {number: path for number, path in cited.items() if number not in listed} == {}
