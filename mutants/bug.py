"""What a known bug is, and how it is put into a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class DoesNotApply(Exception):
    """The text that a bug replaces is not in its file, or is there more than once."""


@dataclass(frozen=True)
class Bug:
    """A small patch of the source that breaks a promise.

    Args:
        name: A few words joined by hyphens; no other bug has it.
        promise: What the bug breaks, in one sentence that is true without the bug.
        file: The file to patch, from the top of the repository.
        old: A piece of its text that occurs exactly once.
        new: What stands there instead when the bug is back.
        tests: Pytest ids. At least one of these tests must fail; one quick test is best.
        hangs: The bug makes its test run forever. Then running out of time counts as caught.
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
        """The pytest ids, also where there is only one."""
        return (self.tests,) if isinstance(self.tests, str) else self.tests

    def patched(self, tree: Path) -> str:
        """The text of the file in a tree, with the bug in it.

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
