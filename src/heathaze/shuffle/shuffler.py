"""Shuffler: it collects sealed messages, drops who sent them and when, and passes them on in batches.

The shuffler sees who takes part and how many messages each person sends, which does not depend on their position. It
sees no message. It adds no messages of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from heathaze.errors import PromiseBroken, UnexpectedMessage, UnreadableData
from heathaze.files import replacing
from heathaze.shuffle.study import NAME_BYTES, Batch, Study, Submission


class Shuffler:
    """The shuffler of a study.

    Args:
        study: The study.
        memory: A file with the names of all people whose messages were passed on, so that a person takes part once even
            if the shuffler is started again. Without it, names are remembered as long as the object lives.

    Raises:
        UnreadableData: The memory is damaged.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, Device, Server
    >>> server = Server(Decoys(Grid.plane(x=(0, 1), y=(0, 1), size=2), epsilon=9, people=20, delta=0.01))
    >>> shuffler = Shuffler(server.study)
    >>> for _ in range(20):
    ...     shuffler.accept(Device(server.study).submit((0.2, 0.2)))
    >>> shuffler.mix()
    <Batch: sealed messages of 20 people>
    """

    def __init__(self, study: Study, memory: str | Path | None = None) -> None:
        self.study = study
        self.memory = None if memory is None else Path(memory)
        self._mixed = self._remembered()
        self._waiting: dict[bytes, tuple[bytes, ...]] = {}
        self._keys: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def accept(self, submission: Submission) -> None:
        """Accept the messages of one person, all or none.

        Args:
            submission: The messages.

        Raises:
            UnexpectedMessage: The submission belongs to another study, the person has taken part before, or the number
                or size of the messages is wrong, or a message is a copy. Nothing of it is kept.
        """
        study, sealed = self.study, submission.sealed
        least, most = study.mechanism.least_messages, study.mechanism.most_messages
        if submission.study != study.digest:
            raise _refused("the study", submission.study.hex(), study.digest.hex())
        if len(submission.name) != NAME_BYTES:
            raise _refused("the name", f"{len(submission.name)} bytes", f"{NAME_BYTES} bytes")
        if submission.name in self._waiting or submission.name in self._mixed:
            raise _refused("the sender", "a person who has taken part", "each person once")
        if not least <= len(sealed) <= most:
            raise _refused("the number of messages", len(sealed), f"{least} to {most}")
        for message in sealed:
            if len(message) != study.sealed_bytes:
                raise _refused("the size of a message", f"{len(message)} bytes", f"{study.sealed_bytes} bytes")
        # A copy of another person's ciphertext would say twice what that person said.
        keys = {message[:32] for message in sealed}
        if len(keys) != len(sealed) or keys & self._keys:
            raise _refused("the encapsulated key of a message", "one that was used before", "a new key")
        self._keys |= keys
        self._waiting[submission.name] = sealed

    def mix(self) -> Batch:
        """Pass on the messages of all people who wait, and forget who sent which.

        The messages are sorted. They begin with random keys, so their order says nothing about senders or time.

        Raises:
            PromiseBroken: Fewer people wait than the study needs; they keep waiting.
            CannotWrite: The memory cannot be written; nothing is passed on.
        """
        if len(self) < self.study.least_people:
            raise PromiseBroken(
                f"{len(self)} people wait, and a batch needs at least {self.study.least_people}; wait for more people."
            )
        mixed = self._mixed | self._waiting.keys()
        if self.memory is not None:
            with replacing(self.memory) as [draft]:
                draft.write_bytes(self.study.digest + b"".join(sorted(mixed)))
        sealed = sorted(message for messages in self._waiting.values() for message in messages)
        batch = Batch(self.study.digest, len(self), self.study.sealed_bytes, b"".join(sealed))
        self._mixed, self._waiting = mixed, {}
        return batch

    def _remembered(self) -> set[bytes]:
        if self.memory is None or not self.memory.exists():
            return set()
        text = self.memory.read_bytes()
        if text[:NAME_BYTES] != self.study.digest or len(text) % NAME_BYTES:
            raise UnreadableData(f"{self.memory} is not the memory of this study's shuffler; name the right file.")
        return {text[at : at + NAME_BYTES] for at in range(NAME_BYTES, len(text), NAME_BYTES)}


def mix_files(study: Study, submissions: Iterable[str | Path], batch: str | Path, memory: str | Path) -> Path:
    """Mix files of submissions into one file: the shuffler as a program that runs once for each batch.

    Args:
        study: The study.
        submissions: Files, each with the bytes of one :class:`Submission`.
        batch: The file to write.
        memory: As in :class:`Shuffler`.

    Returns:
        The path of the batch.

    Raises:
        UnexpectedMessage: A submission is refused; nothing is written.
        PromiseBroken: There are too few submissions; nothing is written.
    """
    shuffler = Shuffler(study, memory)
    for path in submissions:
        shuffler.accept(Submission.from_bytes(Path(path).read_bytes()))
    return shuffler.mix().save(batch)


def _refused(what: str, found: object, expected: object) -> UnexpectedMessage:
    return UnexpectedMessage(what, found, expected, "drop the whole submission")
