"""Docstrings as the API reference shows them: examples as code, references to classes and functions as names."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|exc|data):`~?\.?([^`]+)`")


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class and function that was read."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """A docstring in Markdown: sessions of Python that stand between paragraphs become blocks of code."""
    lines: list[str] = []
    inside = False
    for line in ROLE.sub(r"`\1`", text).split("\n"):
        if inside and not line.strip():
            lines.append("```")
            inside = False
        elif not inside and line.startswith(">>>"):
            lines.append("```pycon")
            inside = True
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
