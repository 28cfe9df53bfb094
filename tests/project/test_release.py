"""Version, changelog and citation agree; ``make release-check`` also asks whether they are ready to be tagged."""

from __future__ import annotations

import datetime
import re
import subprocess
from pathlib import Path

import pytest

import heathaze as hz

ROOT = Path(__file__).resolve().parents[2]
HEADING = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = changelog()
    assert text.count("\n## [Unreleased]\n") == 1
    dated = HEADING.findall(text)
    assert len(dated) + 1 == len(re.findall(r"^## ", text, re.MULTILINE)), "a heading without version and date"
    dates = [datetime.date.fromisoformat(date) for _, date in dated]
    assert dates == sorted(dates, reverse=True)
    numbers = [tuple(map(int, version.split("."))) for version, _ in dated]
    assert numbers == sorted(set(numbers), reverse=True)
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= KINDS


def test_the_version_is_the_last_in_the_changelog_or_the_next() -> None:
    last, date = HEADING.findall(changelog())[0]
    version, _, ending = hz.__version__.partition(".dev")
    assert (version == last) == (ending == ""), "a version between releases ends in .dev0"
    assert tuple(map(int, version.split("."))) >= tuple(map(int, last.split(".")))
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {last}\n" in citation
    assert f"\ndate-released: {date}\n" in citation


def test_the_version_can_be_tagged(request: pytest.FixtureRequest) -> None:
    """Only for ``make release-check``: between releases the version is not final."""
    if not request.config.getoption("--release"):
        return
    last, date = HEADING.findall(changelog())[0]
    assert hz.__version__ == last, "set the version in src/heathaze/version.py and the changelog"
    assert date == datetime.date.today().isoformat(), "the changelog's date is not today's"
    tags = subprocess.run(["git", "tag", "--list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert f"v{last}" not in tags, "this version is tagged already"
