"""Mixed messages: all that the server of the shuffle model sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput
from heathaze.shuffle.mechanism import Sender, check_batch
from heathaze.types import Integers


@dataclass(frozen=True, eq=False, repr=False)
class Mixed:
    """Messages that a shuffler has mixed: all that a server sees. Their order reveals nothing: they are sorted.

    Args:
        mechanism: The mechanism that made the messages.
        messages: One row for each message.
        people: The number of people who sent them.
        simulated: Whether they were made with simulated randomness.

    Raises:
        InvalidInput: The messages do not fit the mechanism.
        PromiseBroken: There are fewer people than the mechanism needs; nothing is decoded.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, simulate
    >>> simulate(Decoys(Grid.plane(x=(0, 4), y=(0, 4), size=4), epsilon=2, people=1000), [(0.5, 0.5)] * 1000)
    <Mixed: messages of 1000 people for Decoys>
    """

    mechanism: Sender
    messages: Integers
    people: int
    simulated: bool = False

    def __post_init__(self) -> None:
        given = np.asarray(self.messages)
        if given.dtype.kind not in "iu" and given.size:
            raise InvalidInput("Messages hold whole numbers; give an array of integers, one row for each message.")
        messages = np.array(given, dtype=np.int64)
        whole(self.people, "people", "people who sent the messages", least=0)
        if messages.ndim != 2 or messages.shape[1] != self.mechanism.numbers:
            raise InvalidInput(
                f"A message of {type(self.mechanism).__name__} is a row of {self.mechanism.numbers} number(s); got an "
                f"array of shape {messages.shape}; give one row for each message."
            )
        if messages.size and not (messages.min() >= 0 and messages.max() < self.mechanism.limit):
            raise InvalidInput("A message holds a number that this mechanism never sends; it is damaged or forged.")
        check_batch(self.mechanism, self.people)
        messages = messages[np.lexsort(messages.T[::-1])]
        messages.flags.writeable = False
        assign(self, messages=messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"<Mixed: messages of {self.people} people for {type(self.mechanism).__name__}>"
