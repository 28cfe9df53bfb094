"""Prose stands one sentence to a line in Markdown, so that diffs show sentences."""

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

TWO_SENTENCES = re.compile(r"[a-z)`%][.!?] [A-Z][a-z]* (?=[a-z])")
LEAD = re.compile(r"^\s*(?:[-*+]|\d+\.)?\s*\*{1,2}[^*]+\*{1,2}[.:]?\s*")
SHORTENED = ("et al. ", "e.g. ", "i.e. ", "vs. ")


def lines_with_two_sentences(text: str) -> list[str]:
    """Lines of prose that hold more than one sentence; code, tables, headings and brackets do not count."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for line in prose.splitlines():
        plain = re.sub(r"\([^()]*\)|\[[^\]]*\]|`[^`]*`|\"[^\"]*\"", "x", LEAD.sub("", line))
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
    assert not lines_with_two_sentences(
        "**Why.** It is fast.\nThis is why, by Du et al. The end.\n```\nA b. Cd ef.\n```"
    )
