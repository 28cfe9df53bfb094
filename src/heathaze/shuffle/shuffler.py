"""Shuffler: it collects sealed messages, drops who sent them and when, and passes them on in batches.

The shuffler sees who takes part and how many messages each person sends. The number of messages does not depend on the
person's position. The shuffler cannot read the messages, and adds none of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

from heathaze.errors import PromiseBroken, UnexpectedMessage, UnreadableData
from heathaze.files import locked, replacing
from heathaze.shuffle.study import NAME_BYTES, Batch, Study, Submission


class Shuffler:
    """The shuffler of a study.

    Args:
        study: The study.
        memory: A file with the names of all people whose messages were passed on, and half of the key of every message.
            With a memory, a person takes part once, and a copied message is refused, even if the shuffler is started
            again or several shufflers share the file. Without a memory, names and keys are remembered only as long as
            the object lives.

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
        self._mixed = self._remembered()  # names of people and half keys of messages that were passed on
        self._waiting: dict[bytes, tuple[bytes, ...]] = {}
        self._keys: set[bytes] = set()  # half keys of the messages that wait
        self._simulated = False

    def __len__(self) -> int:
        return len(self._waiting)

    def accept(self, submission: Submission) -> None:
        """Accept the messages of one person, all or none.

        Args:
            submission: The messages.

        Raises:
            UnexpectedMessage: The submission belongs to another study, the person has taken part before, the batch is
                full, the number or size of the messages is wrong, or a message is a copy. Nothing of it is kept.
        """
        study, sealed = self.study, submission.sealed
        least, most = study.mechanism.least_messages, study.mechanism.most_messages
        if submission.study != study.digest:
            raise _refused("the study", submission.study.hex(), study.digest.hex())
        if len(submission.name) != NAME_BYTES:
            raise _refused("the name", f"{len(submission.name)} bytes", f"{NAME_BYTES} bytes")
        if submission.name in self._waiting or submission.name in self._mixed:
            raise _refused("the sender", "a person who has taken part", "each person once")
        if study.mechanism.most_people is not None and len(self) >= study.mechanism.most_people:
            raise _refused("the number of people", "one more", f"at most {study.mechanism.most_people} in a batch")
        if not least <= len(sealed) <= most:
            raise _refused("the number of messages", len(sealed), f"{least} to {most}")
        for message in sealed:
            if len(message) != study.sealed_bytes:
                raise _refused("the size of a message", f"{len(message)} bytes", f"{study.sealed_bytes} bytes")
        # A copy of another person's message would count that person twice. Copies of all messages of one person in a
        # later batch would tell the server which earlier messages came from one person: those that occur again.
        keys = _half_keys(sealed)
        if len(keys) != len(sealed) or keys & self._keys or keys & self._mixed:
            raise _refused("the encapsulated key of a message", "one that was used before", "a new key")
        self._keys |= keys
        self._waiting[submission.name] = sealed
        self._simulated |= submission.simulated

    def mix(self, save: str | Path | None = None) -> Batch:
        """Pass on the messages of all people who wait, and forget who sent which.

        The messages are sorted. They begin with random keys, so their order says nothing about senders or time.

        Args:
            save: A file for the batch. The file is written together with the memory, so no batch is remembered but not
                saved.

        Returns:
            The batch, for the server.

        Raises:
            PromiseBroken: Fewer people wait than the study needs, or the memory says that another shuffler has passed
                on some of these people or messages. The people keep waiting.
            CannotWrite: The memory or the batch cannot be written; nothing is passed on.
        """
        with locked(self.memory) if self.memory else nullcontext():
            again = self._remembered() & (self._waiting.keys() | self._keys)
            if again:
                raise PromiseBroken(
                    f"Another shuffler has passed on {len(again)} of the people or messages that wait here; let one "
                    "shuffler accept all submissions of a study."
                )
            if len(self) < self.study.least_people:
                raise PromiseBroken(
                    f"{len(self)} people wait, and a batch needs at least {self.study.least_people}; wait for more "
                    "people."
                )
            mixed = self._mixed | self._remembered() | self._waiting.keys() | self._keys
            sealed = sorted(message for messages in self._waiting.values() for message in messages)
            batch = Batch(self.study.digest, len(self), self.study.sealed_bytes, b"".join(sealed), self._simulated)
            files = {self.memory: self._summed(b"".join(sorted(mixed)))} if self.memory else {}
            files |= {Path(save): batch.to_bytes()} if save else {}
            with replacing(*files) as drafts:
                for draft, block in zip(drafts, files.values(), strict=True):
                    draft.write_bytes(block)
        self._mixed, self._waiting, self._keys, self._simulated = mixed, {}, set(), False
        return batch

    def _remembered(self) -> set[bytes]:
        if self.memory is None or not self.memory.exists():
            return set()
        try:
            text = self.memory.read_bytes()
        except OSError as problem:
            raise UnreadableData(
                f"{self.memory} cannot be read as a shuffler's memory ({problem.strerror}); name a file."
            ) from None
        start = NAME_BYTES + hashlib.sha256().digest_size
        if text[:NAME_BYTES] != self.study.digest:
            raise UnreadableData(
                f"{self.memory} is not the memory of this study's shuffler; each study has a key of its own, so name "
                "the file of this study, or a new file."
            )
        if text != self._summed(text[start:]):
            raise UnreadableData(f"{self.memory} is damaged; a shuffler that has forgotten people must not go on.")
        return {text[at : at + NAME_BYTES] for at in range(start, len(text), NAME_BYTES)}

    def _summed(self, body: bytes) -> bytes:
        """The bytes of the memory: the study's digest, a checksum of digest and entries, and the entries."""
        return self.study.digest + hashlib.sha256(self.study.digest + body).digest() + body


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
        UnreadableData: A file is missing; nothing is written.
        PromiseBroken: There are too few submissions; nothing is written.
        CannotWrite: The batch or the memory cannot be written; nothing is written.

    >>> import tempfile
    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, Device, Server
    >>> study = Server(Decoys(Grid.plane(x=(0, 1), y=(0, 1), size=2), epsilon=9, people=20, delta=0.01)).study
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [Path(folder) / f"{number}.submission" for number in range(20)]
    ...     for file in files:
    ...         _ = file.write_bytes(Device(study).submit((0.2, 0.2)).to_bytes())
    ...     Batch.load(mix_files(study, files, Path(folder) / "study.batch", Path(folder) / "memory"))
    <Batch: sealed messages of 20 people>
    """
    shuffler = Shuffler(study, memory)
    for path in submissions:
        try:
            block = Path(path).read_bytes()
        except OSError as problem:
            raise UnreadableData(f"{path} cannot be read ({problem.strerror}); name files of submissions.") from None
        shuffler.accept(Submission.from_bytes(block))
    shuffler.mix(save=batch)
    return Path(batch)


def _half_keys(sealed: Iterable[bytes]) -> set[bytes]:
    """The first half of the encapsulated key of each message, which is random: enough to notice a copy."""
    return {message[:NAME_BYTES] for message in sealed}


def _refused(what: str, found: object, expected: object) -> UnexpectedMessage:
    return UnexpectedMessage(what, found, expected, "drop the whole submission")
