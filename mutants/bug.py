"""The class of a known bug, which can put itself into the text of a source file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class DoesNotApply(Exception):
    """The text that a bug replaces does not occur exactly once in the bug's file."""


@dataclass(frozen=True)
class Bug:
    """A small patch of the source that breaks a promise.

    Args:
        name: A unique name of a few words joined by hyphens.
        promise: The promise that the bug breaks, in one sentence that is true without the bug.
        file: The path of the file to patch, relative to the root of the repository.
        old: A piece of the file's text that occurs exactly once.
        new: The text that replaces ``old`` when the bug is put back.
        tests: Pytest ids. At least one of these tests must fail; one quick test is best.
        hangs: Whether the bug makes its test run forever. A timeout then counts as caught.
    """

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: str | tuple[str, ...]
    hangs: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """The pytest ids as a tuple, also if there is only one."""
        return (self.tests,) if isinstance(self.tests, str) else self.tests

    def patched(self, tree: Path) -> str:
        """Return the text of the bug's file in a source tree, with the bug put in.

        Raises:
            DoesNotApply: The file is missing, or the old text does not occur exactly once.
        """
        path = tree / self.file
        if not path.is_file():
            raise DoesNotApply(f"there is no file {self.file}")
        text = path.read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise DoesNotApply(f"the old text occurs {found} times in {self.file}, and must occur once")
        if self.old == self.new:
            raise DoesNotApply("the old text and the new text are the same")
        return text.replace(self.old, self.new)
