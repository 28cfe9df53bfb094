"""Objects that hold secrets: they neither print them nor can be copied."""

from __future__ import annotations

from typing import NoReturn


class Secret:
    """Something that neither prints nor leaves this process by accident."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __copy__(self) -> NoReturn:
        raise TypeError(f"A {type(self).__name__} cannot be copied: it holds secrets that are used once.")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"A {type(self).__name__} cannot be pickled: it holds secrets that are used once.")
