"""Objects that hold secrets. They do not print them and cannot be copied."""

from __future__ import annotations

from typing import NoReturn


class Secret:
    """Base of objects whose contents must not be printed, copied or pickled by accident."""

    __slots__ = ()

    _why_not_copied = "it holds secrets that are used once"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __copy__(self) -> NoReturn:
        raise TypeError(f"A {type(self).__name__} cannot be copied: {self._why_not_copied}.")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"A {type(self).__name__} cannot be pickled: {self._why_not_copied}.")
