"""The documentation builds as a site: every link leads somewhere, and nothing is asked of another server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_builds_strictly_and_offline(tmp_path: Path) -> None:
    """In strict mode a link that leads nowhere is an error, and so is a name that the API reference does not find."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix(): path for path in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "docs/glossary.html", "reference/heathaze.html", "papers/index.html"} <= pages.keys()
    beside = {path.relative_to(ROOT).with_suffix(".html").as_posix() for path in (ROOT / "src").rglob("*.md")}
    assert beside
    assert beside <= pages.keys(), "a page beside the source is missing"
    for name, path in pages.items():
        asked = re.findall(
            r"""(?:src|srcset|data)=["']?https?:[^"'> ]+|<link[^>]+href=["']?https?:""", path.read_text("utf-8")
        )
        assert asked == [], name
    text = pages["reference/heathaze.html"].read_text("utf-8")
    for name in ("Grid", "Ledger", "Release", "publish", "count"):
        assert f'id="heathaze.{name}"' in text, f"{name} has no entry in the API reference"
